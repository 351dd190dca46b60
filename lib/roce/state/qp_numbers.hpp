// SPDX-License-Identifier: BSD-3-Clause
// Draws queue pair numbers in a secret order of the port's whole range: none can be guessed from
// others, and none is used again before all others were. //= threat:A03
#pragma once

#include "lib/base/check.hpp"
#include "lib/base/permutation.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/port.hpp"

namespace weft::roce {

class QpNumbers {
 public:
  QpNumbers(Port::QpnRange range, base::SecureRandom& random)
      : first_(range.first), order_(range.count, random), random_(random) {}

  uint32_t count() const noexcept { return order_.count(); }

  // `in_use(number)` is false for at least one number of the range besides 0.
  template <class InUse>
  QpNum draw(InUse in_use) noexcept {
    for (;;) {
      if (drawn_ == order_.count()) {
        order_ = base::Permutation(order_.count(), random_);
        drawn_ = 0;
      }
      const QpNum number{first_ + order_(drawn_++)};
      WEFT_DCHECK(number.value <= Psn::kMask);
      if (number.value != 0 && !in_use(number)) return number;
    }
  }

 private:
  uint32_t first_;
  base::Permutation order_;
  base::SecureRandom& random_;
  uint32_t drawn_ = 0;
};

}  // namespace weft::roce
