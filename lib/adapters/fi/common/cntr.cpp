// SPDX-License-Identifier: BSD-3-Clause
// See cntr.hpp.
#include "lib/adapters/fi/common/cntr.hpp"

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

Cntr& of(fid_cntr* cntr) noexcept { return *static_cast<Cntr*>(cntr); }
Cntr& of(fid* cntr) noexcept { return of(reinterpret_cast<fid_cntr*>(cntr)); }

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
  return of(fid).wake(), 0;
}

int set(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).value.store(value);
  return of(fid).wake(), 0;
}

int add_error(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).errors.fetch_add(value);
  return of(fid).wake(), 0;
}

int set_error(fid_cntr* fid, uint64_t value) noexcept {
  of(fid).errors.store(value);
  return of(fid).wake(), 0;
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

int close(fid* fid) noexcept { return close_unused(of(fid), of(fid).domain); }

int control(fid* fid, int command, void* arg) noexcept { return of(fid).control(command, arg); }

fi_ops kFidOps = fid_ops(close, not_implemented, control);
fi_ops_cntr kOps = {.size = sizeof(fi_ops_cntr),
                    .read = read,
                    .readerr = readerr,
                    .add = add,
                    .set = set,
                    .wait = wait,
                    .adderr = add_error,
                    .seterr = set_error};

}  // namespace

Cntr::Cntr(Domain& parent, const fi_cntr_attr& attr, void* user_context) noexcept
    : fid_cntr{.fid = {.fclass = FI_CLASS_CNTR, .context = user_context, .ops = &kFidOps},
               .ops = &kOps},
      Waitable(attr.wait_obj),
      domain(parent) {}

void Cntr::count(int error) noexcept {
  (error == 0 ? value : errors).fetch_add(1);
  wake();
}

int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** out, void* context) noexcept {
  auto& parent = *static_cast<Domain*>(domain);
  return open_waitable<Cntr>(attr->wait_obj, FI_LOG_CNTR, "fi_cntr_open", parent, out,
                             [&] { return new Cntr(parent, *attr, context); });
}

}  // namespace weft::fi
