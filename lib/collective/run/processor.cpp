// SPDX-License-Identifier: BSD-3-Clause
// Whether a yield was long, and how a thread gets from one processor to another.
#include "lib/collective/run/processor.hpp"

#include <sched.h>

#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr Duration kSystemCall = Duration::from_us(1), kSlice = Duration::from_us(100);
constexpr Duration kPause = Duration::from_ms(10);  // between moves, which take tens of us

// The processor that comes as number `place` in the set, counted round and round.
int nth_of(const cpu_set_t& set, uint32_t place) {
  place %= static_cast<uint32_t>(CPU_COUNT(&set));
  int processor = 0;
  while (!CPU_ISSET(processor, &set) || place-- != 0) ++processor;
  return processor;
}

}  // namespace

void Processor::yield() noexcept {
  const Instant before = base::Clock::process().now();
  sched_yield();
  const Instant now = base::Clock::process().now();
  const Duration took = now - before;
  if (took < kSlice) {
    crowded_ = took > kSystemCall;
    looked_ = true;
  }
  if (took > kSystemCall && now >= next_move_) move(now);
}

// To be allowed on one processor only brings a thread there at once.
void Processor::move(Instant now) noexcept {
  next_move_ = now + kPause;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  const int wanted = nth_of(allowed, rank_);
  if (sched_getcpu() == wanted) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(wanted, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0)
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace weft::collective
