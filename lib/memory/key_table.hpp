// SPDX-License-Identifier: BSD-3-Clause
// The key table: the one place that says yes or no to an access. Every lkey and rkey, from an API
// call or from the wire, is looked up here with its protection domain, bounds and permission. Keys
// are 32 random bits; the lkey and the rkey of a region are the same number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/random.hpp"
#include "weft/types.hpp"

namespace weft::memory {

struct Region {
  std::byte* base = nullptr;
  uint64_t length = 0;
  Access access = Access::none;
  uint32_t domain = 0;
  uint32_t key = 0;  // 0 = free slot
};

enum class Verdict : uint8_t { ok, bad_key, wrong_domain, out_of_bounds, no_permission };

// Not synchronized: the holder of the engine's lock owns it. Lookup is one probe into a half-empty
// power-of-two table (constant depth, no allocation); insert may allocate.
class KeyTable {
 public:
  explicit KeyTable(base::SecureRandom& random);

  // Adds a region and returns its new key, never 0, never one in use.
  uint32_t insert(std::byte* base, uint64_t length, Access access, uint32_t domain);
  // Revokes a key. False if there is none.
  bool remove(uint32_t key);

  // Takes the remote rights from a region (SEND with invalidate); local use goes on. False if there
  // is no such key in `domain`. //= roce:C-OPS-73
  bool revoke_remote(uint32_t key, uint32_t domain);

  // Says whether [address, address + length) may be used as `need` through `key` by an object of
  // `domain`; on ok `*where` is the memory. length must be > 0 (zero length is exempt from the
  // check, //= roce:C-OPS-78, the caller's business). Overflow-safe. //= threat:A05 threat:A06
  Verdict check(uint32_t key, uint32_t domain, uint64_t address, uint64_t length, Access need,
                std::byte** where) const noexcept;

  size_t size() const noexcept { return used_; }

 private:
  const Region* find(uint32_t key) const noexcept;
  void grow();

  base::SecureRandom& random_;
  std::vector<Region> slots_;
  size_t used_ = 0;
};

}  // namespace weft::memory
