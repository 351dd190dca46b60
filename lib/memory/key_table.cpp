// SPDX-License-Identifier: BSD-3-Clause
// Open addressing with linear probing: the keys are random already, so their low bits are the hash.
// The table is at most half full, which keeps a probe sequence short whatever key a peer sends (it
// cannot choose the keys that are in the table), and a removal shifts back what follows it, so that
// there are no tombstones and a table that lived long is as fast as a new one.
#include "lib/memory/key_table.hpp"

#include <bit>
#include <utility>

#include "lib/base/check.hpp"

namespace weft::memory {
namespace {

constexpr size_t kFirstSlots = 16;

}  // namespace

KeyTable::KeyTable(base::SecureRandom& random) : random_(random), slots_(kFirstSlots) {}

uint32_t KeyTable::insert(std::byte* base, uint64_t length, Access access, uint32_t domain) {
  // No memory wraps around the end of the address space; check() relies on it.
  WEFT_CHECK(length == 0 || length - 1 <= ~std::bit_cast<uintptr_t>(base));
  if (2 * (used_ + 1) > slots_.size()) grow();
  uint32_t key = 0;
  while (key == 0 || find(key) != nullptr) key = random_.next32();  //= threat:A04
  const size_t mask = slots_.size() - 1;
  size_t at = key & mask;
  while (slots_[at].key != 0) at = (at + 1) & mask;
  slots_[at] = {base, length, access, domain, key};
  ++used_;
  return key;
}

bool KeyTable::remove(uint32_t key) {
  const Region* found = find(key);
  if (found == nullptr) return false;
  const size_t mask = slots_.size() - 1;
  auto hole = static_cast<size_t>(found - slots_.data());
  for (size_t at = (hole + 1) & mask; slots_[at].key != 0; at = (at + 1) & mask) {
    // A region may move into the hole unless its probe sequence begins after the hole.
    const size_t home = slots_[at].key & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = Region{};
  --used_;
  return true;
}

bool KeyTable::revoke_remote(uint32_t key, uint32_t domain) {
  const Region* found = find(key);
  if (found == nullptr || found->domain != domain) return false;
  Region& region = slots_[static_cast<size_t>(found - slots_.data())];
  region.access = region.access & Access::local_write;
  return true;
}

//= threat:A05
//= threat:A06
Verdict KeyTable::check(uint32_t key, uint32_t domain, uint64_t address, uint64_t length,
                        Access need, std::byte** where) const noexcept {
  WEFT_DCHECK(length > 0);
  const Region* region = find(key);
  if (region == nullptr) return Verdict::bad_key;
  if (region->domain != domain) return Verdict::wrong_domain;
  // An address below the base wraps to an offset beyond any length.
  const uint64_t offset = address - std::bit_cast<uintptr_t>(region->base);
  if (offset > region->length || length > region->length - offset) return Verdict::out_of_bounds;
  if (!has(region->access, need)) return Verdict::no_permission;
  *where = std::bit_cast<std::byte*>(address);
  return Verdict::ok;
}

const Region* KeyTable::find(uint32_t key) const noexcept {
  if (key == 0) return nullptr;
  const Region* slots = slots_.data();
  const size_t mask = slots_.size() - 1;
  for (size_t at = key & mask;; at = (at + 1) & mask) {
    if (slots[at].key == key) return slots + at;
    if (slots[at].key == 0) return nullptr;  // there is one: the table is at most half full
  }
}

void KeyTable::grow() {
  std::vector<Region> wider(slots_.size() * 2);
  const size_t mask = wider.size() - 1;
  for (const Region& region : slots_) {
    if (region.key == 0) continue;
    size_t at = region.key & mask;
    while (wider[at].key != 0) at = (at + 1) & mask;
    wider[at] = region;
  }
  slots_ = std::move(wider);
}

}  // namespace weft::memory
