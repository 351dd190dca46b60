// SPDX-License-Identifier: BSD-3-Clause
// Appointments by CLOCK_MONOTONIC, which all processes of a host share.
#include "tools/coll/appointments.hpp"

#include <algorithm>
#include <ctime>

namespace weft::bench {
namespace {

constexpr int64_t kNotice_ns = 1'000'000;  // for the word to reach all ranks

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

Result<void> Appointments::make() {
  if (every_us_ == 0) return {};
  next_ns_ = now_ns() + kNotice_ns;
  return group_.broadcast(&next_ns_, &next_ns_, 1, DataType::int64, 0).wait();
}

// A call that took longer than the time until the next one delays that, and is not counted twice.
Duration Appointments::keep() {
  if (next_ns_ == 0) return {};
  const int64_t before = now_ns();
  const int64_t time = std::max(next_ns_, before);
  int64_t now = before;
  for (; now < time; now = now_ns()) group_.progress();
  next_ns_ += every_us_ * 1000;
  return Duration::from_ns(now - time);
}

}  // namespace weft::bench
