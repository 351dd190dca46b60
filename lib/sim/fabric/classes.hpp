// SPDX-License-Identifier: BSD-3-Clause
// Several data classes. Class 0 is control and always first; of the data classes 1..7 those of
// weight 0 have strict priority, the lower number first, and the others share the remaining rate
// by their weights. Each class has a queue, ECN, buffer accounts and PFC of its own at every port.
// Where all flows are of one class, whichever, none of this is used: the ports' own fields serve.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/packet.hpp"

namespace weft::sim::fabric {

inline constexpr uint32_t kClasses = 8;
using ClassWeights = std::array<double, kClasses>;  // 0: strict

// One class at one port; names as in Port.
struct ClassQueue {
  Fifo data;
  uint32_t queue_bytes = 0;
  uint32_t ingress_bytes = 0;
  uint32_t headroom_used = 0;
  uint32_t headroom = 0;
  uint32_t node = 0;
  uint32_t kmin = 0;
  uint32_t kmax = 0;
  uint8_t threshold_shift = 0;
  bool paused = false;
  bool pausing = false;
  int64_t paused_since = 0;
  int64_t paused_time = 0;
};

// The scheduler of one port. Weighted classes by start-time fair queueing, in bytes over weight: a
// class that was idle starts at the virtual time of the others, without credit for the idle time.
class ClassScheduler {
 public:
  // One of the classes in the mask, which is not 0.
  uint32_t pick(uint32_t eligible, const ClassWeights& weights) const noexcept {
    WEFT_DCHECK(eligible != 0 && (eligible & 1) == 0 && eligible >> kClasses == 0);
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
    WEFT_DCHECK(start(c) >= virtual_time_);
    virtual_time_ = start(c);
    finish_[c] = virtual_time_ + static_cast<uint64_t>(bytes * 65536.0 / weights[c]);
  }

 private:
  uint64_t start(uint32_t c) const noexcept {
    return finish_[c] > virtual_time_ ? finish_[c] : virtual_time_;
  }

  uint64_t virtual_time_ = 0;  // start tag of the packet sent last
  std::array<uint64_t, kClasses> finish_{};
};

// The class queues of all ports.
class DataClasses {
 public:
  explicit DataClasses(const ClassWeights& weights) : weights_(weights) {}

  // Before the first packet; classes are in use from now on.
  void enable(std::vector<uint8_t> class_of_flow, size_t ports) {
    class_of_flow_ = std::move(class_of_flow);
    queues_.resize(ports * kClasses);
    schedulers_.resize(ports);
  }
  bool enabled() const noexcept { return !queues_.empty(); }
  uint32_t class_of(uint32_t flow) const noexcept { return class_of_flow_[flow]; }
  ClassQueue& queue(uint32_t port, uint32_t c) noexcept {
    WEFT_DCHECK(c < kClasses);
    return queues_[size_t{port} * kClasses + c];
  }
  const ClassQueue& queue(uint32_t port, uint32_t c) const noexcept {
    return queues_[size_t{port} * kClasses + c];
  }
  // A mask of the classes that have a packet queued and are not paused.
  uint32_t ready(uint32_t port) const noexcept;
  uint32_t pick(uint32_t port, uint32_t eligible) const noexcept {
    return schedulers_[port].pick(eligible, weights_);
  }
  void charge(uint32_t port, uint32_t c, uint32_t bytes) noexcept {
    schedulers_[port].charge(c, bytes, weights_);
  }
  const std::vector<ClassQueue>& queues() const noexcept { return queues_; }

 private:
  const ClassWeights weights_;
  std::vector<ClassQueue> queues_;          // port x kClasses; empty with one data class
  std::vector<ClassScheduler> schedulers_;  // by port
  std::vector<uint8_t> class_of_flow_;
};

}  // namespace weft::sim::fabric
