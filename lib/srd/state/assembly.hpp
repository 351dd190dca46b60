// SPDX-License-Identifier: BSD-3-Clause
// Messages that have arrived in part. Their bytes are placed already; an assembly counts them, and
// keeps the receive that a SEND is bound to. A table of bounded size.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "weft/types.hpp"

namespace weft::srd {

struct QueuePair;

struct Assembly {
  uint64_t name = 0;     // the peer's index + 1, and the peer's id of the message; 0 = free
  QpNum qp;              // 0: reset or destroyed since; further packets are refused
  uint32_t receive = 0;  // slot of the receive of a SEND
  uint32_t length = 0;
  uint32_t received = 0;
  uint32_t order = 0;  // number of an ordered SEND
  bool ordered = false;
};

class AssemblyTable {
 public:
  static constexpr uint32_t kMostPerPeer = 1024;
  static constexpr uint32_t kMost = 65536;
  static constexpr uint64_t kNameShift = 32;

  AssemblyTable() : slots_(64) {}

  static uint64_t name_of(uint32_t peer, uint32_t message) {
    return uint64_t{peer + 1} << kNameShift | message;
  }
  static uint32_t peer_of(uint64_t name) { return static_cast<uint32_t>(name >> kNameShift) - 1; }
  Assembly* find(uint64_t name) {
    for (size_t at = home(name);; at = (at + 1) & mask()) {
      if (slots_[at].name == name) return &slots_[at];
      if (slots_[at].name == 0) return nullptr;
    }
  }
  // False: there is no place for one more. Invalidates pointers into the table.
  bool provide() noexcept {
    if (used_ >= kMost) return false;
    return used_ * 2 < slots_.size() || base::memory_permitting([this] { grow(); });
  }
  // `name` is not in the table. Null when it is full. Invalidates pointers into the table.
  Assembly* insert(uint64_t name) noexcept {
    WEFT_DCHECK(name != 0 && find(name) == nullptr);
    if (!provide()) return nullptr;
    ++used_;
    Assembly& slot = place(name);
    slot = Assembly{};
    slot.name = name;
    return &slot;
  }
  void remove(Assembly* assembly) {
    auto hole = static_cast<size_t>(assembly - slots_.data());
    WEFT_DCHECK(hole < slots_.size() && slots_[hole].name != 0 && used_ > 0);
    for (size_t at = (hole + 1) & mask(); slots_[at].name != 0; at = (at + 1) & mask()) {
      if (((at - home(slots_[at].name)) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].name = 0;
    --used_;
  }
  // Calls `f(Assembly&)`, which removes the entry, until `wanted` holds for none.
  template <class Wanted, class F>
  void drain(Wanted wanted, F f) {
    for (size_t at = 0; at < slots_.size();) {
      if (slots_[at].name != 0 && wanted(slots_[at])) {
        f(slots_[at]);  // another one may have moved to `at`
      } else {
        ++at;
      }
    }
    // An entry that wrapped around the end may have moved behind `at`.
    for (Assembly& a : slots_)
      if (a.name != 0 && wanted(a)) return drain(wanted, f);
  }
  template <class F>
  void for_each(F f) {
    for (Assembly& a : slots_)
      if (a.name != 0) f(a);
  }
  uint32_t size() const { return used_; }
  size_t capacity() const { return slots_.size(); }

 private:
  size_t mask() const { return slots_.size() - 1; }
  size_t home(uint64_t name) const { return (name * 0x9E3779B97F4A7C15u >> 32) & mask(); }
  Assembly& place(uint64_t name) {
    size_t at = home(name);
    while (slots_[at].name != 0) at = (at + 1) & mask();
    return slots_[at];
  }
  void grow() {
    std::vector<Assembly> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Assembly& a : old)
      if (a.name != 0) place(a.name) = a;
  }

  std::vector<Assembly> slots_;
  uint32_t used_ = 0;
};

}  // namespace weft::srd
