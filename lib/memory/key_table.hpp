// SPDX-License-Identifier: BSD-3-Clause
// The key table: all access checks of registered memory. Every lkey and rkey, from an API call or
// from a packet, is looked up here with its protection domain, bounds and rights. Keys are 32
// random bits; lkey and rkey of a region are the same number. A memory window gives access to a
// part of a region under a key of its own, whose upper 24 bits are constant and whose lower 8 bits
// change with each binding. //= roce:C-OPS-88
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "weft/types.hpp"

namespace weft::memory {

enum class KeyKind : uint8_t {
  region,
  window_of_domain,  // type 1
  window_of_queue,   // type 2
  null_region,       // local only: reads give zeros, what is written vanishes
};

// Memory as a region has it.
struct Extent {
  std::byte* base = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;  // the address of the first byte in requests
  bool operator==(const Extent&) const = default;
};

// What a region is registered with.
struct Registration {
  Extent memory;
  Access access = Access::none;
  uint32_t domain = 0;
  KeyKind kind = KeyKind::region;  // or null_region, whose memory is not used
};

// An entry: a region or a window.
struct Region {
  std::byte* base = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;  // the address of the first byte in requests
  Access access = Access::none;
  uint32_t domain = 0;
  uint32_t key = 0;  // 0 = free slot
  KeyKind kind = KeyKind::region;
  uint8_t variant = 0;   // window: the low 8 bits of the key of the last binding posted
  uint32_t parent = 0;   // window: the key of the region that it is bound to; 0: not bound
  uint32_t qp = 0;       // type 2 window: the queue pair that bound it
  uint32_t windows = 0;  // region: number of windows bound to it
};

// A binding of a window to `length` bytes of a region from `address` on, under `key`.
struct Binding {
  uint32_t window = 0;  // any of its keys
  uint32_t region = 0;
  uint32_t key = 0;
  uint64_t address = 0;
  uint64_t length = 0;  // 0: unbind (type 1 only)
  Access access = Access::none;
};

// The requester of an access by a packet: the receiving queue pair and its protection domain.
struct AccessContext {
  uint32_t domain = 0;
  uint32_t qp = 0;
};

// The result of an access check.
enum class Verdict : uint8_t { ok, bad_key, wrong_domain, out_of_bounds, no_permission };

// Not synchronized: under the driver's lock. Lookup takes few probes in a half-empty table, and
// does not allocate; insertion may.
class KeyTable {
 public:
  explicit KeyTable(base::SecureRandom& random);

  // Most entries of a table: new keys are still found quickly.
  static constexpr size_t kMost = size_t{1} << 22;

  // Adds a region, null or not, and returns its new key, never 0, never one in use. Not if full().
  uint32_t insert(const Registration& region);
  // The same under the addresses of the memory.
  uint32_t insert(std::byte* base, uint64_t length, Access access, uint32_t domain) {
    return insert({{base, length, std::bit_cast<uintptr_t>(base)}, access, domain});
  }
  // Adds a region under the key that another engine of the device has drawn for it. False: a window
  // of this table has that number.
  bool insert_with_key(uint32_t key, const Registration& region);
  // Replaces memory, rights and domain of a region, which is no null region. False, and nothing has
  // changed: windows are bound to it, or there is none.
  bool replace(uint32_t key, const Registration& region) noexcept;
  // Removes a region, null regions too, and unbinds its windows. False if there is none.
  bool remove(uint32_t key);

  // Adds an unbound window; returns its key.
  uint32_t insert_window(KeyKind kind, uint32_t domain);
  void remove_window(uint32_t window);
  // The window with the upper 24 bits of `key`, or null.
  const Region* window(uint32_t key) const noexcept;
  // The key of a binding that is being posted: `wanted` for type 2, a new random one for type 1.
  // `window` exists.
  uint32_t choose_key(uint32_t window, uint32_t wanted) noexcept;
  // Binds a window for a queue pair. False, and nothing has changed, if the window, the region and
  // the queue pair are not of one domain, or the region does not allow it.
  bool bind(const Binding& binding, const AccessContext& owner);

  // Unbinds the type 2 windows of a queue pair that is destroyed or reset.
  void release(uint32_t qp) noexcept;

  // Invalidates a key (SEND with invalidate, local invalidate): removes the remote rights of a
  // region and keeps its local ones, or unbinds a type 2 window of the requester. False: the
  // requester may not invalidate the key. //= roce:C-OPS-73
  bool revoke(uint32_t key, const AccessContext& by);
  // From now on revoke() refuses regions, because other engines of the device share them.
  void disable_region_invalidation() noexcept { region_invalidation_disabled_ = true; }

  // Checks a local access: whether an object of `domain` may access [address, address + length)
  // with the rights `need` through `key`. On ok `*where` is the memory. length > 0: the caller
  // skips the check of zero length (//= roce:C-OPS-78). Overflow-safe. //= threat:A05 threat:A06
  // Keys of windows are invalid here.
  Verdict check(uint32_t key, uint32_t domain, uint64_t address, uint64_t length, Access need,
                std::byte** where) const noexcept;
  // Checks a remote access: `key` may be that of a window.
  Verdict check(uint32_t key, const AccessContext& requester, uint64_t address, uint64_t length,
                Access need, std::byte** where) const noexcept;

  // Checks a remote access to all memory of the key: `*length` bytes at `*where`, possibly 0.
  Verdict check_whole(uint32_t key, const AccessContext& requester, Access need, std::byte** where,
                      uint64_t* length) const noexcept;

  size_t size() const noexcept { return used_; }
  bool full() const noexcept { return used_ >= kMost; }

  // Asserts what the functions above rely on, in time linear in the table: probe sequences without
  // gaps, unique numbers, windows that count in the region they show.
  void check_invariants() const noexcept;

 private:
  static constexpr uint32_t number_of(uint32_t key) noexcept { return key >> 8; }
  static Verdict check_access(const Region& region, uint32_t domain, uint64_t address,
                              uint64_t length, Access need, std::byte** where) noexcept;
  // A local access that is not to a region: valid to a null region only.
  static Verdict check_null(const Region* entry, uint32_t domain, uint64_t length, Access need,
                            std::byte** where) noexcept;
  static Verdict check_binding(const Region& region, const AccessContext& requester) noexcept;
  // The entry whose key has the same upper 24 bits, or null.
  const Region* find_number(uint32_t key) const noexcept;
  const Region* find(uint32_t key) const noexcept;
  Region* mutable_entry(const Region* entry) noexcept;
  bool holds(const Region* entry) const noexcept {  // for assertions
    return entry >= slots_.data() && entry < slots_.data() + slots_.size();
  }
  Region& add(uint32_t key);
  uint32_t new_key();
  void erase(const Region* entry);
  void unbind(Region& window) noexcept;
  void grow();

  base::SecureRandom& random_;
  std::vector<Region> slots_;
  size_t mask_;  // slots_.size() - 1
  size_t used_ = 0;
  size_t bound_to_queues_ = 0;  // type 2 windows
  bool region_invalidation_disabled_ = false;
};

// Inline: called once per packet on either side.

// At most one entry has the upper 24 bits of `key`.
inline const Region* KeyTable::find(uint32_t key) const noexcept {
  if (key == 0) return nullptr;
  WEFT_DCHECK(mask_ + 1 == slots_.size() && 2 * used_ <= slots_.size());
  const Region* const slots = slots_.data();
  for (size_t at = number_of(key) & mask_;; at = (at + 1) & mask_) {
    if (slots[at].key == key) return slots + at;
    if (slots[at].key == 0) return nullptr;
  }
}

inline Verdict KeyTable::check_access(const Region& region, uint32_t domain, uint64_t address,
                                      uint64_t length, Access need, std::byte** where) noexcept {
  WEFT_DCHECK(length > 0);
  if (region.domain != domain) return Verdict::wrong_domain;
  WEFT_DCHECK(region.key != 0);
  // An address below the first one wraps to an offset beyond any length.
  const uint64_t offset = address - region.iova;
  if (offset > region.length || length > region.length - offset) return Verdict::out_of_bounds;
  if (!has(region.access, need)) return Verdict::no_permission;
  // As integers: a region may begin at address zero, where pointer arithmetic is undefined.
  *where = std::bit_cast<std::byte*>(std::bit_cast<uintptr_t>(region.base) + offset);
  return Verdict::ok;
}

// Whether the requester may use the entry: a window must be bound, of type 2 by its queue pair.
inline Verdict KeyTable::check_binding(const Region& region,
                                       const AccessContext& requester) noexcept {
  if (region.kind == KeyKind::region) return Verdict::ok;
  if (region.parent == 0) return Verdict::bad_key;  // null regions too
  if (region.kind == KeyKind::window_of_domain || region.qp == requester.qp) return Verdict::ok;
  return Verdict::wrong_domain;
}

inline Verdict KeyTable::check(uint32_t key, uint32_t domain, uint64_t address, uint64_t length,
                               Access need, std::byte** where) const noexcept {
  const Region* const region = find(key);
  if (region == nullptr || region->kind != KeyKind::region)
    return check_null(region, domain, length, need, where);
  return check_access(*region, domain, address, length, need, where);
}

inline Verdict KeyTable::check(uint32_t key, const AccessContext& requester, uint64_t address,
                               uint64_t length, Access need, std::byte** where) const noexcept {
  const Region* const region = find(key);
  if (region == nullptr) return Verdict::bad_key;
  if (const Verdict verdict = check_binding(*region, requester); verdict != Verdict::ok)
    return verdict;
  return check_access(*region, requester.domain, address, length, need, where);
}

}  // namespace weft::memory
