// SPDX-License-Identifier: BSD-3-Clause
// Several classes of data. Class 0 is control and always first; among the data classes 1..7 those
// of weight 0 go strictly, the lower number first, and the others share what these leave by their
// weights. Each class has its own queue, marks, buffer accounts and pauses at every port. Where all
// flows are of one class, whichever, none of this is in use and the ports' own fields serve.
#pragma once

#include <array>
#include <cstdint>

#include "lib/sim/fabric/packet.hpp"

namespace weft::sim::fabric {

inline constexpr uint32_t kClasses = 8;
inline constexpr uint8_t kUsualClass = 3;
using ClassWeights = std::array<double, kClasses>;  // 0: strict

// What a port has of one class; names as in Port.
struct Lane {
  Fifo data;
  uint32_t queue_bytes = 0;
  uint32_t ingress_bytes = 0;
  uint32_t headroom_used = 0;
  uint32_t headroom = 0;
  uint32_t node = 0;
  uint32_t kmin = 0;
  uint32_t kmax = 0;
  uint8_t pause_shift = 0;
  bool paused = false;
  bool pausing = false;
  int64_t paused_since = 0;
  int64_t paused_time = 0;
};

// Who is next at one port. Weighted classes by start time, in bytes over weight: a class that was
// idle begins where the others are, and is owed nothing.
class ClassTurns {
 public:
  // One of the classes in the mask, which is not 0.
  uint32_t pick(uint32_t eligible, const ClassWeights& weights) const noexcept {
    uint32_t best = 0;
    for (uint32_t c = 1; c < kClasses; ++c) {
      if ((eligible >> c & 1) == 0) continue;
      if (weights[c] == 0) return c;
      if (best == 0 || start(c) < start(best)) best = c;
    }
    return best;
  }
  void charge(uint32_t c, uint32_t bytes, const ClassWeights& weights) noexcept {
    if (weights[c] == 0) return;
    now_ = start(c);
    tags_[c] = now_ + static_cast<uint64_t>(bytes * 65536.0 / weights[c]);
  }

 private:
  uint64_t start(uint32_t c) const noexcept { return tags_[c] > now_ ? tags_[c] : now_; }

  uint64_t now_ = 0;  // of the packet sent last
  std::array<uint64_t, kClasses> tags_{};
};

}  // namespace weft::sim::fabric
