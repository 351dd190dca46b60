// SPDX-License-Identifier: BSD-3-Clause
// Messages that have arrived in part. Their bytes are already where they belong; an assembly only
// counts them, and holds the receive that a SEND was bound to. A table of bounded size.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/memory_permitting.hpp"
#include "weft/types.hpp"

namespace weft::srd {

struct QueuePair;

struct Assembly {
  uint64_t name = 0;     // the peer's index + 1, and the peer's name of the message; 0 = free
  QpNum qp;              // 0: it was reset meanwhile, and what is missing is refused
  uint32_t receive = 0;  // slot of the receive of a SEND
  uint32_t length = 0;
  uint32_t received = 0;
  uint32_t order = 0;  // of an ordered SEND
  bool ordered = false;
};

class AssemblyTable {
 public:
  static constexpr uint32_t kMostPerPeer = 1024;
  static constexpr uint32_t kMost = 65536;

  AssemblyTable() : slots_(64) {}

  static uint64_t name_of(uint32_t peer, uint32_t message) {
    return uint64_t{peer + 1} << 32 | message;
  }
  Assembly* find(uint64_t name) {
    for (size_t at = home(name);; at = (at + 1) & mask()) {
      if (slots_[at].name == name) return &slots_[at];
      if (slots_[at].name == 0) return nullptr;
    }
  }
  // Whether one more has room. Pointers into the table become invalid.
  bool provide() noexcept {
    if (used_ >= kMost) return false;
    return used_ * 2 < slots_.size() || base::memory_permitting([this] { grow(); });
  }
  // `name` is not there. Null when the table is full. Pointers into the table become invalid.
  Assembly* insert(uint64_t name) noexcept {
    if (!provide()) return nullptr;
    ++used_;
    Assembly& slot = place(name);
    slot = Assembly{};
    slot.name = name;
    return &slot;
  }
  void remove(Assembly* assembly) {
    auto hole = static_cast<size_t>(assembly - slots_.data());
    for (size_t at = (hole + 1) & mask(); slots_[at].name != 0; at = (at + 1) & mask()) {
      if (((at - home(slots_[at].name)) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].name = 0;
    --used_;
  }
  // Calls `f(Assembly&)` for some entry for which `wanted` holds, until there is none; f removes
  // it.
  template <class Wanted, class F>
  void drain(Wanted wanted, F f) {
    for (size_t at = 0; at < slots_.size();) {
      if (slots_[at].name != 0 && wanted(slots_[at])) {
        f(slots_[at]);  // another one may have moved here
      } else {
        ++at;
      }
    }
    // An entry that wrapped around the end may have moved behind us.
    for (Assembly& a : slots_)
      if (a.name != 0 && wanted(a)) return drain(wanted, f);
  }
  template <class F>
  void for_each(F f) {
    for (Assembly& a : slots_)
      if (a.name != 0) f(a);
  }
  uint32_t size() const { return used_; }

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
