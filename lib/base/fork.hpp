// SPDX-License-Identifier: BSD-3-Clause
// Detects that an object was created before fork() and is used in the child, which must not use the
// parent's sockets, rings and device queues. //= roce:C-EVT-111
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::base {

// A member of an object with such resources.
class ForkMark {
 public:
  ForkMark() noexcept;
  // True in a child that was forked after construction. Any thread; one relaxed load.
  bool passed() const noexcept { return forks_.load(std::memory_order_relaxed) != born_; }

 private:
  // Incremented in each child. Not inline: modules share it with libweft.so.
  static std::atomic<uint32_t> forks_;
  uint32_t born_;
};

}  // namespace weft::base
