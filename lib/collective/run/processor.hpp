// SPDX-License-Identifier: BSD-3-Clause
// The processor that a rank waits on. A yield that takes longer than a system call says that
// somebody else wants it, maybe the very rank that we wait for; one that takes a time slice does
// not, for who computes does not wait for us. The kernel lets two ranks that keep yielding to each
// other share a processor for some tenths of a second while another has nothing to do, since
// neither ever sleeps: so a rank that finds company goes to the processor of its number among those
// that it may use, and stays there as long as the kernel likes.
#pragma once

#include <cstdint>

#include "weft/units.hpp"

namespace weft::collective {

class Processor {
 public:
  explicit Processor(uint32_t rank) noexcept : rank_(rank) {}

  // As the last yield found it; true before the first.
  bool crowded() const noexcept { return crowded_; }
  // The same, false before one has told.
  bool shared() const noexcept { return crowded_ && looked_; }
  void yield() noexcept;

 private:
  void move(Instant now) noexcept;

  uint32_t rank_;
  bool crowded_ = true;
  bool looked_ = false;
  Instant next_move_{};
};

}  // namespace weft::collective
