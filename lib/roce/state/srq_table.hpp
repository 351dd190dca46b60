// SPDX-License-Identifier: BSD-3-Clause
// Numbers of shared receive queues, and those of XRC domains by number: a request to an XRC target
// names one.
#pragma once

#include <unordered_map>

#include "lib/base/check.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/port.hpp"
#include "lib/transport/shared_receives.hpp"

namespace weft::roce {

class SrqTable {
 public:
  // Most shared receive queues of XRC: half of the smallest range of numbers.
  static constexpr size_t kMost = size_t{1} << 15;
  bool full() const noexcept { return by_number_.size() >= kMost; }

  // A number of the port's range that no XRC shared receive queue has.
  uint32_t choose_number(Port::QpnRange range) noexcept {
    uint32_t number;
    do number = range.first + drawn_++ % range.count;
    while (number == 0 || find(number) != nullptr);
    return number;
  }
  SharedReceives* find(uint32_t number) const noexcept {
    const auto found = by_number_.find(number);
    return found != by_number_.end() ? found->second : nullptr;
  }
  void insert(SharedReceives& srq) {
    WEFT_DCHECK(srq.xrc_domain != 0 && find(srq.number) == nullptr);
    by_number_[srq.number] = &srq;
  }
  // False: it is in no XRC domain.
  bool erase(const SharedReceives& srq) noexcept { return by_number_.erase(srq.number) != 0; }

 private:
  uint32_t drawn_ = 0;
  std::unordered_map<uint32_t, SharedReceives*> by_number_;
};

}  // namespace weft::roce
