// SPDX-License-Identifier: BSD-3-Clause
// Open addressing with linear probing. Keys are random, so the low bits of their number are the
// hash. The table is at most half full, which keeps probe sequences short whatever key a peer sends
// (it cannot choose the keys in the table). Removal moves later entries back, so there are no
// tombstones and an old table is as fast as a new one.
#include "lib/memory/key_table.hpp"

#include <bit>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/memory/null_memory.hpp"

namespace weft::memory {
namespace {

constexpr size_t kFirstSlots = 16;
constexpr uint32_t kVariant = 0xFF;  // the bits of a window's key that change with each binding

}  // namespace

KeyTable::KeyTable(base::SecureRandom& random)
    : random_(random), slots_(kFirstSlots), mask_(kFirstSlots - 1) {}

uint32_t KeyTable::new_key() {
  uint32_t key = 0;
  while (number_of(key) == 0 || find_number(key) != nullptr) key = random_.next32();  //= threat:A04
  return key;
}

Region& KeyTable::add(uint32_t key) {
  WEFT_DCHECK(number_of(key) != 0 && find_number(key) == nullptr);
  if (2 * (used_ + 1) > slots_.size()) grow();
  size_t at = number_of(key) & mask_;
  while (slots_[at].key != 0) at = (at + 1) & mask_;
  ++used_;
  WEFT_DCHECK(2 * used_ <= slots_.size() && slots_[at].windows == 0);
  slots_[at].key = key;
  return slots_[at];
}

namespace {

// No region wraps around the end of the address space, nor do its addresses in requests; check()
// relies on it.
void check_extent(const Extent& memory) {
  WEFT_CHECK(memory.length == 0 || (memory.length - 1 <= ~std::bit_cast<uintptr_t>(memory.base) &&
                                    memory.length - 1 <= ~memory.iova));
}

void set(Region& entry, const Registration& region) noexcept {
  entry.base = region.memory.base;
  entry.length = region.memory.length;
  entry.iova = region.memory.iova;
  entry.access = region.access;
  entry.domain = region.domain;
  entry.kind = region.kind;
}

}  // namespace

uint32_t KeyTable::insert(const Registration& region) {
  const uint32_t key = new_key();
  (void)insert_with_key(key, region);
  return key;
}

bool KeyTable::insert_with_key(uint32_t key, const Registration& region) {
  check_extent(region.memory);
  WEFT_DCHECK(region.kind == KeyKind::region || region.kind == KeyKind::null_region);
  if (region.kind == KeyKind::null_region) prepare_null_memory();  // may throw
  if (find_number(key) != nullptr) return false;
  set(add(key), region);
  return true;
}

bool KeyTable::replace(uint32_t key, const Registration& region) noexcept {
  check_extent(region.memory);
  const Region* const found = find(key);
  if (found == nullptr || found->kind != KeyKind::region || found->windows != 0) return false;
  WEFT_DCHECK(region.kind == KeyKind::region);
  set(*mutable_entry(found), region);
  return true;
}

// No packet has a piece that is longer than the memory which stands in for a null region.
Verdict KeyTable::check_null(const Region* entry, uint32_t domain, uint64_t length, Access need,
                             std::byte** where) noexcept {
  if (entry == nullptr || entry->kind != KeyKind::null_region) return Verdict::bad_key;
  if (entry->domain != domain) return Verdict::wrong_domain;
  if (length > kNullLength) return Verdict::out_of_bounds;
  *where = has(need, Access::local_write) ? null_sink() : null_zeros();
  return Verdict::ok;
}

bool KeyTable::remove(uint32_t key) {
  const Region* const found = find(key);
  if (found == nullptr) return false;
  if (found->kind != KeyKind::region && found->kind != KeyKind::null_region) return false;
  if (found->windows != 0) {
    for (Region& entry : slots_)
      if (entry.key != 0 && entry.parent == key) unbind(entry);
  }
  WEFT_DCHECK(found->windows == 0);
  erase(found);
  return true;
}

void KeyTable::erase(const Region* entry) {
  WEFT_DCHECK(holds(entry) && entry->key != 0 && entry->parent == 0 && used_ != 0);
  const size_t mask = mask_;
  auto hole = static_cast<size_t>(entry - slots_.data());
  for (size_t at = (hole + 1) & mask; slots_[at].key != 0; at = (at + 1) & mask) {
    // An entry may move into the hole unless its probe sequence begins after the hole.
    const size_t home = number_of(slots_[at].key) & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = Region{};
  --used_;
}

uint32_t KeyTable::insert_window(KeyKind kind, uint32_t domain) {
  WEFT_DCHECK(kind == KeyKind::window_of_domain || kind == KeyKind::window_of_queue);
  Region& window = add(new_key());
  window.kind = kind;
  window.domain = domain;
  window.variant = static_cast<uint8_t>(window.key);
  return window.key;
}

void KeyTable::remove_window(uint32_t window) {
  const Region* const found = this->window(window);
  if (found == nullptr) return;
  unbind(*mutable_entry(found));
  erase(found);
}

const Region* KeyTable::window(uint32_t key) const noexcept {
  const Region* const found = find_number(key);
  const bool is_window = found != nullptr && (found->kind == KeyKind::window_of_domain ||
                                              found->kind == KeyKind::window_of_queue);
  return is_window ? found : nullptr;
}

uint32_t KeyTable::choose_key(uint32_t window, uint32_t wanted) noexcept {
  WEFT_DCHECK(this->window(window) != nullptr);
  Region& entry = *mutable_entry(this->window(window));
  const bool ours = entry.kind == KeyKind::window_of_domain;
  if (ours) wanted = entry.variant ^ (1 + random_.next32() % kVariant);  //= threat:A04
  WEFT_DCHECK(!ours || entry.variant != static_cast<uint8_t>(wanted));   // a new key each time
  entry.variant = static_cast<uint8_t>(wanted);
  return (entry.key & ~kVariant) | entry.variant;
}

bool KeyTable::bind(const Binding& b, const AccessContext& owner) {
  const Region* const found = window(b.window);
  if (found == nullptr || found->domain != owner.domain) return false;
  Region& window = *mutable_entry(found);
  const bool of_queue = window.kind == KeyKind::window_of_queue;
  // A type 2 window must be unbound, and get another key than before.
  if (of_queue && (window.parent != 0 || b.length == 0 || b.key == window.key)) return false;
  std::byte* where = nullptr;
  const Access rights = b.access & Access::all;
  const bool writes = has(rights, Access::remote_write) || has(rights, Access::remote_atomic);
  const Access need = writes ? Access::window_bind | Access::local_write : Access::window_bind;
  const Region* const region = find(b.region);
  if (b.length != 0 && (region == nullptr || region->kind != KeyKind::region)) return false;
  if (b.length != 0 &&
      check(b.region, owner.domain, b.address, b.length, need, &where) != Verdict::ok)
    return false;
  unbind(window);
  WEFT_DCHECK(number_of(b.key) == number_of(window.key));
  window.key = b.key;
  if (b.length == 0) return true;
  window.base = where;
  window.length = b.length;
  window.access = rights;
  window.iova = has(b.access, Access::zero_based) ? 0 : b.address;
  window.parent = b.region;
  window.qp = of_queue ? owner.qp : 0;
  bound_to_queues_ += of_queue;
  ++mutable_entry(find(b.region))->windows;
  return true;
}

void KeyTable::unbind(Region& window) noexcept {
  if (window.parent == 0) return;
  WEFT_DCHECK(window.kind != KeyKind::region && find(window.parent) != nullptr);
  WEFT_DCHECK(find(window.parent)->kind == KeyKind::region && find(window.parent)->windows != 0);
  WEFT_DCHECK(window.kind != KeyKind::window_of_queue || bound_to_queues_ != 0);
  --mutable_entry(find(window.parent))->windows;
  bound_to_queues_ -= window.kind == KeyKind::window_of_queue;
  window.parent = 0;
  window.length = 0;
  window.access = Access::none;
}

void KeyTable::release(uint32_t qp) noexcept {
  if (bound_to_queues_ == 0) return;
  for (Region& entry : slots_)
    if (entry.kind == KeyKind::window_of_queue && entry.parent != 0 && entry.qp == qp)
      unbind(entry);
}

bool KeyTable::revoke(uint32_t key, const AccessContext& by) {
  const Region* const found = find(key);
  if (found == nullptr || found->domain != by.domain) return false;
  Region& entry = *mutable_entry(found);
  if (entry.kind == KeyKind::region) {
    if (region_invalidation_disabled_) return false;
    entry.access = entry.access & (Access::local_write | Access::window_bind);
    return true;
  }
  // A type 1 window cannot be invalidated.
  if (entry.kind != KeyKind::window_of_queue || entry.parent == 0 || entry.qp != by.qp)
    return false;
  unbind(entry);
  return true;
}

//= threat:A05
//= threat:A06
Verdict KeyTable::check_whole(uint32_t key, const AccessContext& requester, Access need,
                              std::byte** where, uint64_t* length) const noexcept {
  const Region* const region = find(key);
  if (region == nullptr) return Verdict::bad_key;
  if (const Verdict verdict = check_binding(*region, requester); verdict != Verdict::ok)
    return verdict;
  if (region->domain != requester.domain) return Verdict::wrong_domain;
  if (!has(region->access, need)) return Verdict::no_permission;
  *where = region->base;
  *length = region->length;
  return Verdict::ok;
}

const Region* KeyTable::find_number(uint32_t key) const noexcept {
  const uint32_t number = number_of(key);
  const Region* const slots = slots_.data();
  for (size_t at = number & mask_;; at = (at + 1) & mask_) {
    if (slots[at].key == 0) return nullptr;  // exists: the table is at most half full
    if (number_of(slots[at].key) == number) return slots + at;
  }
}

Region* KeyTable::mutable_entry(const Region* entry) noexcept {
  WEFT_DCHECK(holds(entry));
  return slots_.data() + (entry - slots_.data());
}

void KeyTable::grow() {
  std::vector<Region> wider(slots_.size() * 2);
  const size_t mask = wider.size() - 1;
  for (const Region& region : slots_) {
    if (region.key == 0) continue;
    size_t at = number_of(region.key) & mask;
    while (wider[at].key != 0) at = (at + 1) & mask;
    wider[at] = region;
  }
  slots_ = std::move(wider);
  mask_ = mask;
  check_invariants();
}

void KeyTable::check_invariants() const noexcept {
  if constexpr (!base::kChecksInvariants) return;
  WEFT_DCHECK(std::has_single_bit(slots_.size()) && mask_ + 1 == slots_.size());
  size_t used = 0, bound_to_queues = 0, bound = 0, counted = 0;
  for (const Region& entry : slots_) {
    if (entry.key == 0) {
      WEFT_DCHECK(entry.parent == 0 && entry.windows == 0);
      continue;
    }
    ++used;
    // Its probe sequence reaches it first: no gap before it, no other entry of its number.
    WEFT_DCHECK(find_number(entry.key) == &entry);
    counted += entry.windows;
    if (entry.parent == 0) continue;
    ++bound;
    bound_to_queues += entry.kind == KeyKind::window_of_queue;
    const Region* const region = find(entry.parent);
    WEFT_DCHECK(entry.kind != KeyKind::region && region != nullptr);
    WEFT_DCHECK(region->kind == KeyKind::region && region->domain == entry.domain);
    WEFT_DCHECK(entry.length <= region->length);
    WEFT_DCHECK(entry.kind == KeyKind::window_of_queue || entry.qp == 0);
    (void)region;
  }
  WEFT_DCHECK(used == used_ && 2 * used <= slots_.size());
  WEFT_DCHECK(bound == counted);
  WEFT_DCHECK(bound_to_queues == bound_to_queues_);
}

}  // namespace weft::memory
