// SPDX-License-Identifier: BSD-3-Clause
// Pacing by CLOCK_MONOTONIC, which all processes of a host share.
#include "tools/coll/paced_calls.hpp"

#include <algorithm>
#include <ctime>

namespace weft::bench {
namespace {

constexpr int64_t kStartDelayNs = 1'000'000;  // for the broadcast to reach all ranks

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

Result<void> PacedCalls::start() {
  if (every_us_ == 0) return {};
  next_ns_ = now_ns() + kStartDelayNs;
  return group_.broadcast(&next_ns_, &next_ns_, 1, DataType::int64, 0).wait();
}

// A call that takes longer than the interval delays the next one; the delay counts once.
Duration PacedCalls::wait_for_next() {
  if (next_ns_ == 0) return {};
  const int64_t before = now_ns();
  const int64_t time = std::max(next_ns_, before);
  int64_t now = before;
  for (; now < time; now = now_ns()) group_.progress();
  next_ns_ += every_us_ * 1000;
  return Duration::from_ns(now - time);
}

}  // namespace weft::bench
