// SPDX-License-Identifier: BSD-3-Clause
// The clock of the measuring loops: the time stamp counter if it is usable, because clock_gettime
// costs a tenth of a shared-memory round trip. Ticks are converted to time after the run.
#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace weft::bench {

using Ticks = uint64_t;

inline Ticks monotonic_ns() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

#if defined(__x86_64__)
inline Ticks ticks() noexcept { return __rdtsc(); }
#else
inline Ticks ticks() noexcept { return monotonic_ns(); }
#endif

// Ticks per microsecond, measured once against the system clock.
double ticks_per_us();

}  // namespace weft::bench
