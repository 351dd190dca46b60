// SPDX-License-Identifier: BSD-3-Clause
// Time and rate as types. Real and virtual time are integer picoseconds, so that the serialization
// time of a packet is exact at every link speed in use. An Instant counts from an epoch of its
// clock (first use in the process, start of the simulation).
#pragma once

#include <compare>
#include <cstdint>

namespace weft {

// A span of time, signed, in picoseconds (about +-106 days).
struct Duration {
  int64_t ps = 0;

  // Conversions from and to units; to larger units rounded towards zero.
  static constexpr Duration from_ps(int64_t v) { return {v}; }
  static constexpr Duration from_ns(int64_t v) { return {v * 1000}; }
  static constexpr Duration from_us(int64_t v) { return {v * 1'000'000}; }
  static constexpr Duration from_ms(int64_t v) { return {v * 1'000'000'000}; }
  static constexpr Duration from_s(int64_t v) { return {v * 1'000'000'000'000}; }
  constexpr int64_t ns() const { return ps / 1000; }
  constexpr int64_t us() const { return ps / 1'000'000; }
  constexpr int64_t ms() const { return ps / 1'000'000'000; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const { return {ps + o.ps}; }
  constexpr Duration operator-(Duration o) const { return {ps - o.ps}; }
  constexpr Duration operator*(int64_t k) const { return {ps * k}; }
  constexpr Duration operator/(int64_t k) const { return {ps / k}; }
};

// A point in time, in picoseconds after the epoch of its clock. never() is later than any other.
struct Instant {
  int64_t ps = 0;

  // For "no deadline" and "no timestamp".
  static constexpr Instant never() { return {INT64_MAX}; }
  // Whether it is never().
  constexpr bool is_never() const { return ps == INT64_MAX; }
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ps + d.ps}; }
  constexpr Instant operator-(Duration d) const { return {ps - d.ps}; }
  constexpr Duration operator-(Instant o) const { return {ps - o.ps}; }
};

// A data rate in bits per second.
struct Rate {
  int64_t bits_per_second = 0;

  // From gigabits per second.
  static constexpr Rate from_gbps(int64_t v) { return {v * 1'000'000'000}; }
  constexpr auto operator<=>(const Rate&) const = default;
  // The serialization time of `bytes` at this rate, in picoseconds rounded up.
  constexpr Duration time_for(int64_t bytes) const {
    __extension__ using Wide = __int128;  // not ISO C++, which -Wpedantic would say
    const auto bits = static_cast<Wide>(bytes) * 8 * 1'000'000'000'000;
    return {static_cast<int64_t>((bits + bits_per_second - 1) / bits_per_second)};
  }
};

}  // namespace weft
