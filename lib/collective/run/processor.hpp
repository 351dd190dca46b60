// SPDX-License-Identifier: BSD-3-Clause
// The processor that a rank polls on. A yield that takes longer than a system call shows that
// another thread is runnable there, maybe the rank that this one waits for; a yield that takes a
// whole time slice shows a computing thread, which does not wait for this rank. Two ranks that keep
// yielding to each other never sleep, so the kernel may leave them on one processor for some tenths
// of a second while another is idle. So a rank that shares its processor migrates to the one with
// its number among those that it may use; the kernel may move it again at any time.
#pragma once

#include <cstdint>

#include "weft/units.hpp"

namespace weft::collective {

class Processor {
 public:
  explicit Processor(uint32_t rank) noexcept : rank_(rank) {}

  // As the last yield measured it; true before the first.
  bool oversubscribed() const noexcept { return oversubscribed_; }
  // The same, but false before the first yield.
  bool known_oversubscribed() const noexcept { return oversubscribed_ && measured_; }
  void yield() noexcept;

 private:
  void migrate(Instant now) noexcept;

  uint32_t rank_;
  bool oversubscribed_ = true;
  bool measured_ = false;
  Instant next_migration_{};
};

}  // namespace weft::collective
