// SPDX-License-Identifier: BSD-3-Clause
// Registrations: those of the caller, those that are kept, new ones.
#include "lib/collective/run/registration_cache.hpp"

#include <algorithm>

#include "lib/collective/run/link.hpp"

namespace weft::collective {

Result<std::shared_ptr<Registered>> TeamMemory::make(std::byte* memory, size_t bytes, bool open) {
  const Access access = open ? kPeerAccess | Access::local_write : Access::none;
  Result<MemoryRegion> region = pd_.register_memory(memory, bytes, access);
  if (!region) return region.error();
  ++made_;
  return std::make_shared<Registered>(Registered{memory, bytes, open, nullptr, std::move(*region)});
}

Result<RegisteredPtr> TeamMemory::find(std::byte* memory, size_t bytes, bool open) {
  for (const std::weak_ptr<Registered>& each : given_)
    if (const std::shared_ptr<Registered> given = each.lock())
      if (given->covers(memory, bytes) && given->open >= open) return RegisteredPtr(given);
  for (const RegisteredPtr& old : kept_)
    if (old->covers(memory, bytes) && old->open >= open) return old;
  Result<std::shared_ptr<Registered>> made = make(memory, bytes, open);
  if (!made) return made.error();
  if (!keeps_) return RegisteredPtr(*made);
  kept_.push_front(*made);
  if (kept_.size() > kKept) kept_.pop_back();
  return kept_.front();
}

Result<std::shared_ptr<Registered>> TeamMemory::add(void* memory, size_t bytes) {
  Result<std::shared_ptr<Registered>> made = make(static_cast<std::byte*>(memory), bytes, places_);
  if (!made) return made;
  given_.erase(std::remove_if(given_.begin(), given_.end(),
                              [](const std::weak_ptr<Registered>& old) { return old.expired(); }),
               given_.end());
  given_.push_back(*made);
  return made;
}

void TeamMemory::forget(const void* memory, size_t bytes) {
  const std::byte* const begin = static_cast<const std::byte*>(memory);
  const auto touches = [&](const RegisteredPtr& old) {
    return old->memory < begin + bytes && begin < old->memory + old->bytes;
  };
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), touches), kept_.end());
}

Result<RegisteredPtr> TeamMemory::space(RegisteredPtr& kept, size_t bytes, bool open) {
  if (bytes == 0) return RegisteredPtr();
  if (kept && kept->bytes >= bytes && kept->open >= open) return kept;
  const size_t size = std::max<size_t>(2 * bytes, 64 * 1024);
  std::unique_ptr<std::byte[]> owned(new (std::nothrow) std::byte[size]());
  if (!owned)
    return Error{Code::no_memory,
                 "no memory for a work space of " + std::to_string(size) + " bytes"};
  Result<std::shared_ptr<Registered>> made = make(owned.get(), size, open);
  if (!made) return made.error();
  (*made)->owned = std::move(owned);
  return kept = std::move(*made);
}

void TeamMemory::close() {
  kept_.clear();
  for (const std::weak_ptr<Registered>& each : given_)
    if (const std::shared_ptr<Registered> given = each.lock()) given->region = MemoryRegion();
}

}  // namespace weft::collective
