// SPDX-License-Identifier: BSD-3-Clause
// A queue of bulk calls.
#include "bench/coll/beside.hpp"

namespace weft::bench {

Result<void> Beside::begin(uint32_t calls) {
  calls_.clear();
  for (uint32_t i = 0; i < calls; ++i)
    calls_.push_back(group_.all_reduce(data_.data(), data_.data(), data_.size(), DataType::fp32,
                                       ReduceOp::max, {.traffic_class = traffic_class_}));
  return calls_.front().wait();
}

Result<std::optional<uint32_t>> Beside::end() {
  const bool left = !calls_.back().done();
  uint32_t done = 0;
  for (size_t i = calls_.size(); i-- > 0 && group_.rank() == 0;)
    if (Result<void> canceled = calls_[i].cancel("measured enough"); !canceled)
      return canceled.error();
  for (Operation& call : calls_) {
    const Result<void> ended = call.wait();
    if (!ended && ended.error().code != Code::canceled) return ended.error();
    done += static_cast<bool>(ended);
  }
  return left ? std::optional<uint32_t>(done) : std::nullopt;
}

}  // namespace weft::bench
