// SPDX-License-Identifier: BSD-3-Clause
// See region.hpp.
#include "providers/software/region.hpp"

namespace weft::software {

Region::Region(Device device, const Drivers& drivers, const memory::Registration& registration)
    : device_(std::move(device)), drivers_(drivers), registration_(registration) {
  set_extent();
}

void Region::set_extent() noexcept {
  const bool null = registration_.kind == memory::KeyKind::null_region;
  base = registration_.memory.base;
  size = null ? SIZE_MAX : registration_.memory.length;
  iova = registration_.memory.iova;
}

// If another engine has a window of the key's number, the key is drawn again.
Result<void> Region::register_on_all() {
  for (;; deregister()) {
    const Result<uint32_t> key = drivers_.front()->register_memory(registration_);
    if (!key) return key.error();
    lkey = LKey{*key};
    rkey = RKey{registration_.kind == memory::KeyKind::region ? *key : 0};
    registered_ = 1;
    while (registered_ < drivers_.size() &&
           drivers_[registered_]->register_memory_with_key(*key, registration_))
      ++registered_;
    if (registered_ == drivers_.size()) return {};
  }
}

// Engine 0 last, so that the key is not drawn again before all engines have removed it.
void Region::deregister() noexcept {
  for (; registered_ != 0; --registered_)
    drivers_[registered_ - 1]->deregister_memory(lkey.value, registration_);
}

Result<void> Region::reregister(const Reregistration& change, const verbs::Domain* domain) {
  if (drivers_.front()->forked()) return Error{Code::permission_denied, kForked};
  const std::lock_guard lock(mutex_);
  memory::Registration after = registration_;
  if (after.kind == memory::KeyKind::null_region)
    return Error{Code::not_supported, "a null region cannot be changed"};
  if (const auto& to = change.translation; to)
    after.memory = {static_cast<std::byte*>(to->address), to->size, to->iova};
  if (change.access) after.access = *change.access;
  if (domain != nullptr) {
    const auto* const ours = dynamic_cast<const Domain*>(domain);
    after.domain = ours != nullptr ? ours->id_on(drivers_) : 0;
    if (after.domain == 0)
      return Error{Code::invalid_argument,
                   "Reregistration::domain must be of the open device of the region"};
  }
  if (change.translation || change.access)
    if (const Result<void> ok = driver::Driver::check_registration(after); !ok) return ok;
  if (!replace_on_all(after))
    return Error{Code::busy,
                 "windows are bound to the region: invalidate or unbind them before it changes"};
  registration_ = after;
  set_extent();
  return {};
}

// False, and nothing has changed: an engine has a window on the region.
bool Region::replace_on_all(const memory::Registration& after) noexcept {
  for (size_t i = 0; i < drivers_.size(); ++i) {
    if (drivers_[i]->replace_memory(lkey.value, registration_, after)) continue;
    while (i-- != 0) (void)drivers_[i]->replace_memory(lkey.value, after, registration_);
    return false;
  }
  return true;
}

}  // namespace weft::software
