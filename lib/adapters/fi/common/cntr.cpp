// SPDX-License-Identifier: BSD-3-Clause
// See cntr.hpp.
#include "lib/adapters/fi/common/cntr.hpp"

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

Cntr& of(fid_cntr* cntr) noexcept { return *static_cast<Cntr*>(cntr); }
Cntr& of(fid* cntr) noexcept { return of(reinterpret_cast<fid_cntr*>(cntr)); }

void woken(Cntr& cntr) noexcept {
  if (cntr.sleeps.load()) cntr.waiting.signal();
}

uint64_t read(fid_cntr* fid) noexcept {
  of(fid).waiting.progress();
  return of(fid).value.load();
}

uint64_t readerr(fid_cntr* fid) noexcept {
  of(fid).waiting.progress();
  return of(fid).errors.load(std::memory_order_acquire);
}

int add(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).value.fetch_add(value);
  return woken(of(fid)), 0;
}

int set(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).value.store(value);
  return woken(of(fid)), 0;
}

int add_error(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).errors.fetch_add(value);
  return woken(of(fid)), 0;
}

int set_error(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).errors.store(value);
  return woken(of(fid)), 0;
}

int wait(fid_cntr* fid, uint64_t threshold, int timeout) noexcept {
  Cntr& cntr = of(fid);
  cntr.sleeps.store(true);
  const uint64_t errors = cntr.errors.load();
  const int result = cntr.waiting.wait(
      [&]() -> int {
        cntr.waiting.unsignal();
        if (read(fid) >= threshold) return 0;
        return cntr.errors.load() != errors ? -FI_EAVAIL : -FI_EAGAIN;
      },
      timeout);
  return result == -FI_EAGAIN ? -FI_ETIMEDOUT : result;
}

int close(fid* fid) noexcept {
  Cntr& cntr = of(fid);
  if (cntr.users.load() != 0) return -FI_EBUSY;
  Domain& domain = *cntr.domain;
  delete &cntr;
  domain.release();
  return 0;
}

int control(fid* fid, int command, void* arg) noexcept {
  Cntr& cntr = of(fid);
  if (command == FI_GETWAITOBJ) return *static_cast<fi_wait_obj*>(arg) = cntr.wait_obj, 0;
  if (command != FI_GETWAIT || cntr.wait_obj != FI_WAIT_FD) return -FI_ENOSYS;
  return *static_cast<int*>(arg) = cntr.waiting.fd(), 0;
}

fi_ops kFidOps = {.size = sizeof(fi_ops),
                  .close = close,
                  .bind = not_implemented,
                  .control = control,
                  .ops_open = not_implemented,
                  .tostr = not_implemented,
                  .ops_set = not_implemented};
fi_ops_cntr kOps = {.size = sizeof(fi_ops_cntr),
                    .read = read,
                    .readerr = readerr,
                    .add = add,
                    .set = set,
                    .wait = wait,
                    .adderr = add_error,
                    .seterr = set_error};

}  // namespace

Cntr::Cntr(const fi_cntr_attr& attr, void* user_context) noexcept
    : fid_cntr{.fid = {.fclass = FI_CLASS_CNTR, .context = user_context, .ops = &kFidOps},
               .ops = &kOps},
      wait_obj(attr.wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attr.wait_obj) {}

void Cntr::count(int error) noexcept {
  (error == 0 ? value : errors).fetch_add(1);  // before `sleeps` is looked at: see wait()
  woken(*this);
}

void Cntr::prepare_wait() noexcept {
  sleeps.store(true);
  waiting.unsignal();
  waiting.arm();
  waiting.progress();
}

int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** out, void* context) noexcept {
  return guarded([&]() -> int {
    if (attr->wait_obj == FI_WAIT_SET || attr->wait_obj == FI_WAIT_MUTEX_COND)
      return not_supported(FI_LOG_CNTR, "fi_cntr_open: only FI_WAIT_FD can be waited for");
    auto* cntr = new Cntr(*attr, context);
    if (!cntr->waiting.usable()) return delete cntr, -FI_EMFILE;
    cntr->domain = static_cast<Domain*>(domain);
    cntr->domain->retain();
    *out = cntr;
    return 0;
  });
}

}  // namespace weft::fi
