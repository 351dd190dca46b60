// SPDX-License-Identifier: BSD-3-Clause
// The table from queue pair number to queue pair, looked up for every packet: open addressing. QPNs
// are random, so their low bits are the hash; the table is at most half full.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "weft/types.hpp"

namespace weft::transport {

// Does not own the queue pairs. Under the driver's lock.
template <class QueuePair>
class QpTable {
 public:
  QpTable() : slots_(64) {}

  QueuePair* find(QpNum number) const noexcept {
    for (size_t i = number.value & mask();; i = (i + 1) & mask()) {
      if (slots_[i].number == number.value) return slots_[i].qp;
      if (slots_[i].number == 0) return nullptr;
    }
  }

  // `number` is not in the table. May allocate.
  void insert(QpNum number, QueuePair* qp) {
    WEFT_DCHECK(number.value != 0 && qp != nullptr && find(number) == nullptr);
    if (2 * (used_ + 1) > slots_.size()) grow();
    place(number.value, qp);
    ++used_;
    WEFT_DCHECK(2 * used_ <= slots_.size());
  }

  void erase(QpNum number) noexcept {
    WEFT_DCHECK(number.value != 0);
    size_t hole = number.value & mask();
    while (slots_[hole].number != number.value) {
      if (slots_[hole].number == 0) return;
      hole = (hole + 1) & mask();
    }
    // Close the hole: move back later entries of the run whose probe sequence includes it.
    for (size_t i = (hole + 1) & mask(); slots_[i].number != 0; i = (i + 1) & mask()) {
      const size_t home = slots_[i].number & mask();
      if (((i - home) & mask()) >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = {};
    WEFT_DCHECK(used_ != 0 && find(number) == nullptr);
    --used_;
  }

  size_t size() const noexcept { return used_; }

 private:
  struct Slot {
    uint32_t number = 0;  // 0 = free: QPN 0 does not exist
    QueuePair* qp = nullptr;
  };
  size_t mask() const noexcept { return slots_.size() - 1; }
  void place(uint32_t number, QueuePair* qp) {
    size_t i = number & mask();
    while (slots_[i].number != 0) i = (i + 1) & mask();
    slots_[i] = {number, qp};
  }
  void grow() {
    WEFT_DCHECK((slots_.size() & mask()) == 0);
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.number != 0) place(slot.number, slot.qp);
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace weft::transport
