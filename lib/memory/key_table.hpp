// SPDX-License-Identifier: BSD-3-Clause
// The key table: the one place that says yes or no to an access. Every lkey and rkey, from an API
// call or from the wire, is looked up here with its protection domain, bounds and permission. Keys
// are 32 random bits; the lkey and the rkey of a region are the same number. A memory window shows
// a part of a region under a key of its own: the upper 24 bits of it stay, the lower 8 are chosen
// anew each time that the window is bound. //= roce:C-OPS-88
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "weft/types.hpp"

namespace weft::memory {

enum class KeyKind : uint8_t { region, window_of_domain, window_of_queue };  // types 1 and 2

struct Region {
  std::byte* base = nullptr;
  uint64_t length = 0;
  Access access = Access::none;
  uint32_t domain = 0;
  uint32_t key = 0;  // 0 = free slot
  KeyKind kind = KeyKind::region;
  bool zero_based = false;  // a window whose addresses begin at 0
  uint8_t variant = 0;      // a window: the low bits of the key of the last binding that was posted
  uint32_t parent = 0;      // a window: the key of the region that it shows; 0: it is not bound
  uint32_t qp = 0;          // a type 2 window: the queue pair that bound it
  uint32_t windows = 0;     // a region: the windows bound to it
};

// A window is to show `length` bytes of a region from `address` on, under `key`.
struct Binding {
  uint32_t window = 0;  // any of its keys
  uint32_t region = 0;
  uint32_t key = 0;
  uint64_t address = 0;
  uint64_t length = 0;  // 0: nothing any more (type 1 only)
  Access access = Access::none;
};

// Who comes from the wire: a queue pair and its domain.
struct AccessContext {
  uint32_t domain = 0;
  uint32_t qp = 0;
};

enum class Verdict : uint8_t { ok, bad_key, wrong_domain, out_of_bounds, no_permission };

// Not synchronized: the holder of the engine's lock owns it. Lookup is one probe into a half-empty
// power-of-two table (constant depth, no allocation); insert may allocate.
class KeyTable {
 public:
  explicit KeyTable(base::SecureRandom& random);

  // Adds a region and returns its new key, never 0, never one in use.
  uint32_t insert(std::byte* base, uint64_t length, Access access, uint32_t domain);
  // Adds a region under the key that the table of another engine of the device has given it. False:
  // a window here has that number.
  bool adopt(uint32_t key, std::byte* base, uint64_t length, Access access, uint32_t domain);
  // Revokes a key, and the windows that show the region. False if there is none.
  bool remove(uint32_t key);

  // Adds a window that shows nothing yet; returns its key.
  uint32_t insert_window(KeyKind kind, uint32_t domain);
  void remove_window(uint32_t window);
  // The window that has `key` or had it or will have it, or null.
  const Region* window(uint32_t key) const noexcept;
  // A binding of the window is posted, with this key (type 2), or with a new one (type 1), which is
  // returned. `window` is there.
  uint32_t choose_key(uint32_t window, uint32_t wanted) noexcept;
  // Binds a window for a queue pair. False, and nothing has changed, if the window, the region and
  // the queue pair are not of one domain, or the region does not allow it.
  bool bind(const Binding& binding, const AccessContext& owner);

  // The queue pair goes, or is another one from now on: so do its bindings.
  void release(uint32_t qp) noexcept;

  // Takes the remote rights from a region, or all from a type 2 window of that queue pair (SEND
  // with invalidate, local invalidate); local use of a region goes on. False if the key is not
  // theirs to revoke. //= roce:C-OPS-73
  bool revoke(uint32_t key, const AccessContext& by);
  // From now on no region is anybody's to revoke: other engines have the same ones.
  void keep_regions() noexcept { keeps_regions_ = true; }

  // Says whether [address, address + length) may be used as `need` through `key` by an object of
  // `domain`; on ok `*where` is the memory. length must be > 0 (zero length is exempt from the
  // check, //= roce:C-OPS-78, the caller's business). Overflow-safe. //= threat:A05 threat:A06
  // Windows have no key for local use, nor for protocols without them.
  Verdict check(uint32_t key, uint32_t domain, uint64_t address, uint64_t length, Access need,
                std::byte** where) const noexcept;
  // The same for a request from the wire: `key` may be that of a window.
  Verdict check(uint32_t key, const AccessContext& requester, uint64_t address, uint64_t length,
                Access need, std::byte** where) const noexcept;

  // The same for all that the key shows: `*length` bytes at `*where`, which may be none.
  Verdict check_whole(uint32_t key, const AccessContext& requester, Access need, std::byte** where,
                      uint64_t* length) const noexcept;

  size_t size() const noexcept { return used_; }

  // Asserts what the functions above rely on, in time linear in the table: probe sequences without
  // gaps, unique numbers, windows that count in the region they show.
  void check_invariants() const noexcept;

 private:
  static constexpr uint32_t number_of(uint32_t key) noexcept { return key >> 8; }
  static Verdict check_access(const Region& region, uint32_t domain, uint64_t address,
                              uint64_t length, Access need, std::byte** where) noexcept;
  static Verdict admit(const Region& region, const AccessContext& requester) noexcept;
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
  bool keeps_regions_ = false;
};

// Inline: each packet asks once on either side.

// There is one entry at most with the upper bits of `key`.
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
  // An address below the base wraps to an offset beyond any length.
  const uint64_t origin = region.zero_based ? 0 : std::bit_cast<uintptr_t>(region.base);
  WEFT_DCHECK(region.key != 0 && (!region.zero_based || region.kind != KeyKind::region));
  const uint64_t offset = address - origin;
  if (offset > region.length || length > region.length - offset) return Verdict::out_of_bounds;
  if (!has(region.access, need)) return Verdict::no_permission;
  // As a number: a region may begin at address zero, and pointers may not go on from there.
  *where = std::bit_cast<std::byte*>(std::bit_cast<uintptr_t>(region.base) + offset);
  return Verdict::ok;
}

// Whether what has been found shows anything to a requester. A window must be bound.
inline Verdict KeyTable::admit(const Region& region, const AccessContext& requester) noexcept {
  if (region.kind == KeyKind::region) return Verdict::ok;
  if (region.parent == 0) return Verdict::bad_key;
  if (region.kind == KeyKind::window_of_domain || region.qp == requester.qp) return Verdict::ok;
  return Verdict::wrong_domain;
}

inline Verdict KeyTable::check(uint32_t key, uint32_t domain, uint64_t address, uint64_t length,
                               Access need, std::byte** where) const noexcept {
  const Region* const region = find(key);
  if (region == nullptr || region->kind != KeyKind::region) return Verdict::bad_key;
  return check_access(*region, domain, address, length, need, where);
}

inline Verdict KeyTable::check(uint32_t key, const AccessContext& requester, uint64_t address,
                               uint64_t length, Access need, std::byte** where) const noexcept {
  const Region* const region = find(key);
  if (region == nullptr) return Verdict::bad_key;
  if (const Verdict verdict = admit(*region, requester); verdict != Verdict::ok) return verdict;
  return check_access(*region, requester.domain, address, length, need, where);
}

}  // namespace weft::memory
