// SPDX-License-Identifier: BSD-3-Clause
// See eq.hpp.
#include "lib/adapters/fi/common/eq.hpp"

#include <algorithm>
#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/objects.hpp"

namespace weft::fi {
namespace {

Eq& of(fid_eq* eq) noexcept { return *static_cast<Eq*>(eq); }
Eq& of(fid* eq) noexcept { return of(reinterpret_cast<fid_eq*>(eq)); }

ssize_t read(fid_eq* fid, uint32_t* event, void* buffer, size_t length, uint64_t flags) noexcept {
  of(fid).waiting.progress();
  return of(fid).take(event, buffer, length, flags);
}

ssize_t readerr(fid_eq* fid, fi_eq_err_entry* out, uint64_t flags) noexcept {
  return of(fid).take_error(*out, flags);
}

ssize_t write(fid_eq* fid, uint32_t event, const void* buffer, size_t length, uint64_t) noexcept {
  return guarded([&]() -> ssize_t {
    const char* bytes = static_cast<const char*>(buffer);
    of(fid).push({.event = event, .bytes = {bytes, bytes + length}, .error = 0, .info = nullptr});
    return static_cast<ssize_t>(length);
  });
}

ssize_t sread(fid_eq* fid, uint32_t* event, void* buffer, size_t length, int timeout,
              uint64_t flags) noexcept {
  Eq& eq = of(fid);
  return eq.waiting.wait(
      [&] {
        eq.waiting.unsignal();
        return read(fid, event, buffer, length, flags);
      },
      timeout);
}

const char* strerror(fid_eq*, int prov_errno, const void*, char* buffer, size_t length) noexcept {
  return copy_text(fi_strerror(prov_errno), buffer, length);
}

int close(fid* fid) noexcept { return close_unused(of(fid), of(fid).fabric); }

int control(fid* fid, int command, void* arg) noexcept { return of(fid).control(command, arg); }

fi_ops kFidOps = fid_ops(close, not_implemented, control);
fi_ops_eq kOps = {.size = sizeof(fi_ops_eq),
                  .read = read,
                  .readerr = readerr,
                  .write = write,
                  .sread = sread,
                  .strerror = strerror};

const ::fid* owner_of(const EqEvent& event) noexcept {
  static_assert(offsetof(fi_eq_cm_entry, fid) == 0 && offsetof(fi_eq_err_entry, fid) == 0);
  const ::fid* owner = nullptr;
  if (event.bytes.size() >= sizeof owner) std::memcpy(&owner, event.bytes.data(), sizeof owner);
  return owner;
}

}  // namespace

Eq::Eq(Fabric& parent, const fi_eq_attr& attr, void* user_context) noexcept
    : fid_eq{.fid = {.fclass = FI_CLASS_EQ, .context = user_context, .ops = &kFidOps},
             .ops = &kOps},
      Waitable(attr.wait_obj),
      fabric(parent) {}

Eq::~Eq() {
  if (connections) waiting.remove(connections.get());
  for (const EqEvent& event : events_)
    if (event.info) fi_freeinfo(event.info);
}

void Eq::push(EqEvent event) noexcept {
  const std::lock_guard hold(lock_);
  try {
    events_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    FI_WARN(&provider(), FI_LOG_EQ, "out of memory: an event is lost\n");
    if (event.info) fi_freeinfo(event.info);
  }
  waiting.signal();
}

void Eq::push_connection(uint32_t event, ::fid* owner, fi_info* info, const void* data,
                         size_t length) noexcept {
  EqEvent entry{.event = event, .bytes = {}, .error = 0, .info = info};
  guarded([&] {
    entry.bytes.resize(sizeof(fi_eq_cm_entry) + length);
    const fi_eq_cm_entry head{.fid = owner, .info = info};
    std::memcpy(entry.bytes.data(), &head, sizeof head);
    if (length != 0) std::memcpy(entry.bytes.data() + sizeof head, data, length);
    return 0;
  });
  push(std::move(entry));
}

void Eq::push_error(::fid* owner, int code, const void* data, size_t length) noexcept {
  EqEvent entry{.event = 0, .bytes = {}, .error = code, .info = nullptr};
  guarded([&] {
    entry.bytes.resize(sizeof(fi_eq_err_entry) + length);
    fi_eq_err_entry head{};
    head.fid = owner;
    head.context = owner->context;
    head.err = head.prov_errno = code;
    head.err_data_size = length;
    std::memcpy(entry.bytes.data(), &head, sizeof head);
    if (length != 0) std::memcpy(entry.bytes.data() + sizeof head, data, length);
    return 0;
  });
  push(std::move(entry));
}

void Eq::push_av_error(::fid* av, void* context, int code, size_t index) noexcept {
  EqEvent entry{.event = 0, .bytes = {}, .error = code, .info = nullptr};
  guarded([&] {
    fi_eq_err_entry head{};
    head.fid = av;
    head.context = context;
    head.data = index;
    head.err = head.prov_errno = code;
    const char* bytes = reinterpret_cast<const char*>(&head);
    entry.bytes.assign(bytes, bytes + sizeof head);
    return 0;
  });
  push(std::move(entry));
}

void Eq::forget(const ::fid* owner) noexcept {
  const std::lock_guard hold(lock_);
  std::erase_if(events_, [owner](const EqEvent& event) {
    const bool of_connection = event.error != 0 || event.event == FI_CONNREQ ||
                               event.event == FI_CONNECTED || event.event == FI_SHUTDOWN;
    const bool own = of_connection && owner_of(event) == owner;
    if (own && event.info) fi_freeinfo(event.info);
    return own;
  });
}

ssize_t Eq::take(uint32_t* event, void* buffer, size_t length, uint64_t flags) noexcept {
  const std::lock_guard hold(lock_);
  if (events_.empty()) return -FI_EAGAIN;
  EqEvent& front = events_.front();
  if (front.error != 0) return -FI_EAVAIL;
  // Connection data goes "up to space provided"; a structure is never cut.
  const bool connection = front.event == FI_CONNREQ || front.event == FI_CONNECTED;
  const size_t least = connection ? sizeof(fi_eq_cm_entry) : front.bytes.size();
  if (length < least) return -FI_ETOOSMALL;
  const size_t copied = std::min(length, front.bytes.size());
  *event = front.event;
  if (copied != 0) std::memcpy(buffer, front.bytes.data(), copied);
  if ((flags & FI_PEEK) == 0) events_.pop_front();
  return static_cast<ssize_t>(copied);
}

ssize_t Eq::take_error(fi_eq_err_entry& out, uint64_t flags) noexcept {
  const std::lock_guard hold(lock_);
  if (events_.empty() || events_.front().error == 0) return -FI_EAGAIN;
  EqEvent& front = events_.front();
  // Since 1.5 the caller may give a buffer for the data; before, the structure ended with err_data.
  const bool has_size = FI_VERSION_GE(fabric.api_version, FI_VERSION(1, 5));
  const size_t size = has_size ? sizeof out : offsetof(fi_eq_err_entry, err_data_size);
  void* const room = has_size && out.err_data_size != 0 ? out.err_data : nullptr;
  const size_t room_size = room != nullptr ? out.err_data_size : 0;
  std::memcpy(&out, front.bytes.data(), size);
  const size_t data_size = front.bytes.size() - sizeof out;
  if (flags & FI_PEEK) {
    out.err_data = front.bytes.data() + sizeof out;
  } else {
    error_data_ = std::move(front.bytes);
    out.err_data = error_data_.data() + sizeof out;
    events_.pop_front();
  }
  if (room != nullptr) {
    out.err_data_size = std::min(room_size, data_size);
    if (out.err_data_size != 0) std::memcpy(room, out.err_data, out.err_data_size);
    out.err_data = room;
  } else if (data_size == 0) {
    out.err_data = nullptr;
  }
  return static_cast<ssize_t>(size);
}

int Eq::prepare_wait() noexcept {
  waiting.unsignal();
  waiting.progress();
  const std::lock_guard hold(lock_);
  return events_.empty() ? 0 : -FI_EAGAIN;
}

int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** out, void* context) noexcept {
  auto& parent = *static_cast<Fabric*>(fabric);
  return open_waitable<Eq>(attr->wait_obj, FI_LOG_EQ, "fi_eq_open", parent, out,
                           [&] { return new Eq(parent, *attr, context); });
}

}  // namespace weft::fi
