// SPDX-License-Identifier: BSD-3-Clause
// See cq.hpp.
#include "lib/adapters/fi/common/cq.hpp"

#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

constexpr size_t kDefaultSize = 1024;

size_t entry_size(fi_cq_format format) noexcept {
  switch (format) {
    case FI_CQ_FORMAT_MSG:
      return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
      return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
      return sizeof(fi_cq_tagged_entry);
    default:
      return sizeof(fi_cq_entry);
  }
}

// Each format is a prefix of the longest.
void put_entry(const CqEntry& entry, fi_cq_format format, void* out) noexcept {
  const fi_cq_tagged_entry all{.op_context = entry.context,
                               .flags = entry.flags,
                               .len = entry.length,
                               .buf = entry.buffer,
                               .data = entry.data,
                               .tag = entry.tag};
  std::memcpy(out, &all, entry_size(format));
}

Cq& of(fid_cq* cq) noexcept { return *static_cast<Cq*>(cq); }
Cq& of(fid* cq) noexcept { return of(reinterpret_cast<fid_cq*>(cq)); }

ssize_t readfrom(fid_cq* fid, void* buffer, size_t count, fi_addr_t* sources) noexcept {
  Cq& cq = of(fid);
  if (cq.unread() < count || count == 0) cq.waiting.progress();
  return cq.take(buffer, count, sources);
}

ssize_t read(fid_cq* fid, void* buffer, size_t count) noexcept {
  return readfrom(fid, buffer, count, nullptr);
}

ssize_t readerr(fid_cq* fid, fi_cq_err_entry* out, uint64_t) noexcept {
  return of(fid).take_error(*out);
}

// With FI_CQ_COND_THRESHOLD it returns before `cond` entries are there, as the manual permits.
ssize_t sreadfrom(fid_cq* fid, void* buffer, size_t count, fi_addr_t* sources, const void*,
                  int timeout) noexcept {
  Cq& cq = of(fid);
  if (cq.wait_obj == FI_WAIT_NONE) return -FI_EINVAL;
  cq.sleeps.store(true);
  bool woken = false;
  const ssize_t result = cq.waiting.wait(
      [&]() -> ssize_t {
        cq.waiting.unsignal();  // before the look: what comes after it signals again
        const ssize_t got = readfrom(fid, buffer, count, sources);
        if (got != -FI_EAGAIN || !cq.signaled.exchange(false)) return got;
        woken = true;
        return -FI_ECANCELED;
      },
      timeout);
  return woken ? -FI_EAGAIN : result;
}

ssize_t sread(fid_cq* fid, void* buffer, size_t count, const void* cond, int timeout) noexcept {
  return sreadfrom(fid, buffer, count, nullptr, cond, timeout);
}

int signal(fid_cq* fid) noexcept {
  of(fid).signaled.store(true);
  of(fid).waiting.signal();
  return 0;
}

const char* strerror(fid_cq*, int prov_errno, const void*, char* buffer, size_t length) noexcept {
  return copy_text(status_text(prov_errno), buffer, length);
}

int close(fid* fid) noexcept { return close_unused(of(fid), of(fid).domain); }

int control(fid* fid, int command, void* arg) noexcept { return of(fid).control(command, arg); }

fi_ops kFidOps = fid_ops(close, not_implemented, control);
fi_ops_cq kOps = {.size = sizeof(fi_ops_cq),
                  .read = read,
                  .readfrom = readfrom,
                  .readerr = readerr,
                  .sread = sread,
                  .sreadfrom = sreadfrom,
                  .signal = signal,
                  .strerror = strerror};

}  // namespace

Cq::Cq(Domain& parent, const fi_cq_attr& attr, void* user_context) noexcept
    : fid_cq{.fid = {.fclass = FI_CLASS_CQ, .context = user_context, .ops = &kFidOps},
             .ops = &kOps},
      Waitable(attr.wait_obj),
      domain(parent),
      format(attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr.format),
      size(attr.size != 0 ? attr.size : kDefaultSize) {}

void Cq::push(const CqEntry& entry) noexcept {
  {
    const std::lock_guard hold(lock_);
    try {
      entries_.push_back(entry);
    } catch (const std::bad_alloc&) {
      out_of_memory_ = true;
    }
    unread_.store(entries_.size(), std::memory_order_release);
  }
  wake();
}

ssize_t Cq::take(void* buffer, size_t count, fi_addr_t* sources) noexcept {
  const std::lock_guard hold(lock_);
  if (out_of_memory_) return -FI_EOVERRUN;
  if (entries_.empty()) return -FI_EAGAIN;
  if (entries_.front().error != 0) return -FI_EAVAIL;
  size_t taken = 0;
  for (; taken < count && !entries_.empty() && entries_.front().error == 0; ++taken) {
    const CqEntry& entry = entries_.front();
    put_entry(entry, format, static_cast<char*>(buffer) + taken * entry_size(format));
    if (sources != nullptr) sources[taken] = entry.source;
    entries_.pop_front();
  }
  unread_.store(entries_.size(), std::memory_order_release);
  return static_cast<ssize_t>(taken);
}

ssize_t Cq::take_error(fi_cq_err_entry& out) noexcept {
  const std::lock_guard hold(lock_);
  if (entries_.empty() || entries_.front().error == 0) return -FI_EAGAIN;
  const CqEntry& entry = entries_.front();
  out.op_context = entry.context;
  out.flags = entry.flags;
  out.len = entry.length;
  out.buf = entry.buffer;
  out.data = entry.data;
  out.tag = entry.tag;
  out.olen = entry.beyond;
  out.err = entry.error;
  out.prov_errno = entry.prov_error;
  // There is no more data. Before 1.5 the structure ended here, and the provider owned the data.
  if (FI_VERSION_GE(domain.fabric.api_version, FI_VERSION(1, 5)))
    out.err_data_size = 0;
  else
    out.err_data = nullptr;
  entries_.pop_front();
  unread_.store(entries_.size(), std::memory_order_release);
  return 1;
}

int Cq::prepare_wait() noexcept {
  prepare();
  return unread() != 0 || signaled.exchange(false) ? -FI_EAGAIN : 0;
}

int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** out, void* context) noexcept {
  auto& parent = *static_cast<Domain*>(domain);
  return open_waitable<Cq>(attr->wait_obj, FI_LOG_CQ, "fi_cq_open", parent, out,
                           [&] { return new Cq(parent, *attr, context); });
}

}  // namespace weft::fi
