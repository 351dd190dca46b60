// SPDX-License-Identifier: BSD-3-Clause
// The last collective calls of this rank by sequence number, to be compared with what peers called
// at the same number.
#pragma once

#include <array>

#include "lib/base/check.hpp"
#include "lib/collective/plan/call.hpp"

namespace weft::collective {

class CallHistory {
 public:
  uint64_t last() const { return last_; }  // 0: none yet
  uint64_t next() const { return last_ + 1; }
  // `call.sequence` is next().
  void add(const Call& call) {
    WEFT_DCHECK(call.sequence == next());
    last_ = call.sequence;
    calls_[last_ % calls_.size()] = call;
  }
  // Null: not called yet, overwritten, or an exchange (sequence 0).
  const Call* find(uint64_t sequence) const {
    const Call& call = calls_[sequence % calls_.size()];
    return sequence != 0 && call.sequence == sequence ? &call : nullptr;
  }

 private:
  std::array<Call, 64> calls_{};
  uint64_t last_ = 0;
};

}  // namespace weft::collective
