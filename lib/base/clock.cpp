// SPDX-License-Identifier: BSD-3-Clause
// Calibration of the process's clock: see clock.hpp.
#include "lib/base/clock.hpp"

#include <ctime>

#include "lib/base/virtual_process.hpp"

namespace weft::base {

namespace {

Instant (*virtual_now)() = nullptr;
bool made = false;  // the process's clock

int64_t monotonic_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

#if defined(__x86_64__)
// Reads counter and clock at nearly the same moment: the closest pair of a few tries.
void sample(uint64_t& ticks, int64_t& ns) noexcept {
  uint64_t best = ~uint64_t{0};
  for (int i = 0; i < 16; ++i) {
    const uint64_t before = __rdtsc();
    const int64_t at = monotonic_ns();
    const uint64_t width = __rdtsc() - before;
    if (width >= best) continue;
    best = width;
    ticks = before + width / 2;
    ns = at;
  }
}
#endif

}  // namespace

Clock::Clock() noexcept {
  made = true;
  if (virtual_now != nullptr) return;  // and no counter: now() is monotonic()
  start_ns_ = monotonic_ns();
#if defined(__x86_64__)
  uint64_t ticks = 0;
  int64_t ns = 0;
  sample(start_, start_ns_);
  while (monotonic_ns() - start_ns_ < 1'000'000) {
  }
  sample(ticks, ns);
  if (ticks > start_ && ns > start_ns_) {
    __extension__ using Wide = unsigned __int128;
    ps_per_tick_ =
        static_cast<uint64_t>((static_cast<Wide>(ns - start_ns_) * 1000 << 24) / (ticks - start_));
  }
#endif
}

Instant Clock::monotonic() const noexcept {
  if (virtual_now != nullptr) return virtual_now();
  return Instant{} + Duration::from_ns(monotonic_ns() - start_ns_);
}

bool live_in_virtual_time(Instant (*now)()) noexcept {
  if (!made) virtual_now = now;
  return virtual_now == now;
}

const Clock& Clock::process() noexcept {
  static const Clock clock;
  return clock;
}

}  // namespace weft::base
