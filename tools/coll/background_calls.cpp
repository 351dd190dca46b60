// SPDX-License-Identifier: BSD-3-Clause
// Issues and cancels the background all-reduces.
#include "tools/coll/background_calls.hpp"

#include <algorithm>

#include "lib/base/clock.hpp"

namespace weft::bench {

Result<void> BackgroundCalls::start(uint32_t calls) {
  calls_.clear();
  for (uint32_t i = 0; i < calls; ++i)
    calls_.push_back(group_.all_reduce(data_.data(), data_.data(), data_.size(), DataType::fp32,
                                       ReduceOp::max, {.traffic_class = traffic_class_}));
  const Result<void> first = calls_.front().wait();
  started_at_ = base::wall_now();
  return first;
}

Result<std::optional<double>> BackgroundCalls::stop() {
  const bool still_running = !calls_.back().done();
  const auto done = std::count_if(calls_.begin() + 1, calls_.end(),
                                  [](const Operation& call) { return call.done(); });
  const double us = static_cast<double>((base::wall_now() - started_at_).ps) / 1e6;
  const double bytes = static_cast<double>(data_.size() * sizeof(float));
  for (size_t i = calls_.size(); i-- > 0 && group_.rank() == 0;)
    if (Result<void> canceled = calls_[i].cancel("measurement complete"); !canceled)
      return canceled.error();
  for (Operation& call : calls_) {
    const Result<void> ended = call.wait();
    if (!ended && ended.error().code != Code::canceled) return ended.error();
  }
  return still_running ? std::optional<double>(static_cast<double>(done) * bytes / us / 1e3)
                       : std::nullopt;
}

}  // namespace weft::bench
