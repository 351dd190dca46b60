// SPDX-License-Identifier: BSD-3-Clause
// Has this process come out of fork() as the child since an object was made? Then the object is the
// parent's, and the child may not touch what stands behind it: sockets, rings, the queues of a
// device. //= roce:C-EVT-111
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::base {

// A member of such an object.
class ForkMark {
 public:
  ForkMark() noexcept;
  // Any thread, one relaxed load.
  bool passed() const noexcept { return forks_.load(std::memory_order_relaxed) != born_; }

 private:
  static inline std::atomic<uint32_t> forks_{0};  // of which this process was the child
  uint32_t born_;
};

}  // namespace weft::base
