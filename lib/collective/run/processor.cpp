// SPDX-License-Identifier: BSD-3-Clause
// Measured yields, and migration by processor affinity.
#include "lib/collective/run/processor.hpp"

#include <sched.h>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"

namespace weft::collective {
namespace {

constexpr Duration kSystemCall = Duration::from_us(1), kSlice = Duration::from_us(100);
constexpr Duration kPause = Duration::from_ms(10);  // between migrations, which take tens of us

// Processor number `place` of the set, modulo its size.
int nth_of(const cpu_set_t& set, uint32_t place) {
  WEFT_DCHECK(CPU_COUNT(&set) > 0);
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
    oversubscribed_ = took > kSystemCall;
    measured_ = true;
  }
  if (took > kSystemCall && now >= next_migration_) migrate(now);
}

// An affinity of one processor moves a thread there at once.
void Processor::migrate(Instant now) noexcept {
  next_migration_ = now + kPause;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  const int target = nth_of(allowed, rank_);
  if (sched_getcpu() == target) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(target, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0)
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace weft::collective
