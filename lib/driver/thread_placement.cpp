// SPDX-License-Identifier: BSD-3-Clause
// See thread_placement.hpp.
#include "lib/driver/thread_placement.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace weft::driver {

namespace {

// struct sched_attr of sched_setattr(2), whose header clashes with glibc's from 2.41 on.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  // ns; of SCHED_OTHER: the slice, at least 0.1 ms
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);  // SCHED_ATTR_SIZE_VER0

constexpr uint64_t kShortestSliceNs = 100'000;

}  // namespace

void ThreadPlacement::begin() noexcept {
  if (sched_getaffinity(0, sizeof given_, &given_) != 0) CPU_ZERO(&given_);
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  may_spin_ = attributes.policy == SCHED_OTHER && CPU_COUNT(&given_) > 1;
  if (attributes.policy == SCHED_OTHER) {
    attributes.runtime = kShortestSliceNs;
  } else if (attributes.policy == SCHED_FIFO || attributes.policy == SCHED_RR) {
    ++attributes.priority;
  } else {
    return;
  }
  // Fails where it is not permitted, and beyond the highest priority.
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void ThreadPlacement::avoid(int core) noexcept {
  if (core == avoided_) return;
  avoided_ = core;
  cpu_set_t cores = given_;
  if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(static_cast<unsigned>(core), &cores);
  if (CPU_COUNT(&cores) != 0) (void)sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace weft::driver
