// SPDX-License-Identifier: BSD-3-Clause
// Lookup in the caller's regions, then in the cache; then a new registration.
#include "lib/collective/run/registration_cache.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/run/link.hpp"

namespace weft::collective {

Result<std::shared_ptr<Registered>> RegistrationCache::make(std::byte* memory, size_t bytes,
                                                            bool remote_writable) {
  const Access access = remote_writable ? kPeerAccess | Access::local_write : Access::none;
  Result<MemoryRegion> region = pd_.register_memory(memory, bytes, access);
  if (!region) return region.error();
  ++made_;
  return std::make_shared<Registered>(
      Registered{memory, bytes, remote_writable, nullptr, std::move(*region)});
}

Result<RegisteredPtr> RegistrationCache::find(const void* buffer, size_t bytes, bool written) {
  std::byte* const memory = static_cast<std::byte*>(const_cast<void*>(buffer));
  const bool remote_writable = written && rendezvous_;
  for (const std::weak_ptr<Registered>& each : given_)
    if (const std::shared_ptr<Registered> given = each.lock())
      if (given->covers(memory, bytes) && given->remote_writable >= remote_writable)
        return RegisteredPtr(given);
  for (const RegisteredPtr& old : kept_)
    if (old->covers(memory, bytes) && old->remote_writable >= remote_writable) return old;
  Result<std::shared_ptr<Registered>> made = make(memory, bytes, remote_writable);
  if (!made) return made.error();
  if (!keeps_) return RegisteredPtr(*made);
  kept_.push_front(*made);
  if (kept_.size() > kKept) kept_.pop_back();
  WEFT_DCHECK(kept_.size() <= kKept && kept_.front()->covers(memory, bytes));
  return kept_.front();
}

Result<std::shared_ptr<Registered>> RegistrationCache::add(void* memory, size_t bytes) {
  Result<std::shared_ptr<Registered>> made =
      make(static_cast<std::byte*>(memory), bytes, rendezvous_);
  if (!made) return made;
  given_.erase(std::remove_if(given_.begin(), given_.end(),
                              [](const std::weak_ptr<Registered>& old) { return old.expired(); }),
               given_.end());
  given_.push_back(*made);
  return made;
}

void RegistrationCache::forget(const void* memory, size_t bytes) {
  const std::byte* const begin = static_cast<const std::byte*>(memory);
  const auto touches = [&](const RegisteredPtr& old) {
    return old->memory < begin + bytes && begin < old->memory + old->bytes;
  };
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), touches), kept_.end());
  WEFT_DCHECK(std::none_of(kept_.begin(), kept_.end(), touches));
}

Result<RegisteredPtr> RegistrationCache::ensure_buffer(RegisteredPtr& kept, size_t bytes,
                                                       bool written) {
  if (bytes == 0) return RegisteredPtr();
  const bool remote_writable = written && rendezvous_;
  if (kept && kept->bytes >= bytes && kept->remote_writable >= remote_writable) return kept;
  const size_t size = std::max<size_t>(2 * bytes, 64 * 1024);
  std::unique_ptr<std::byte[]> owned(new (std::nothrow) std::byte[size]());
  if (!owned)
    return Error{Code::no_memory,
                 "no memory for a work space of " + std::to_string(size) + " bytes"};
  Result<std::shared_ptr<Registered>> made = make(owned.get(), size, remote_writable);
  if (!made) return made.error();
  (*made)->owned = std::move(owned);
  kept = std::move(*made);
  WEFT_DCHECK(kept->bytes >= bytes && kept->remote_writable >= remote_writable);
  return kept;
}

void RegistrationCache::close() {
  kept_.clear();
  for (const std::weak_ptr<Registered>& each : given_)
    if (const std::shared_ptr<Registered> given = each.lock()) given->region = MemoryRegion();
}

}  // namespace weft::collective
