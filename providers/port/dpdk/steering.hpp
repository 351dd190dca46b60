// SPDX-License-Identifier: BSD-3-Clause
// Rules of a device with several queues that send flows to the queue of the engine that has their
// queue pair. RSS knows nothing of queue pairs: a flow that keeps coming to the wrong queue, whose
// frames are handed over, is asked a rule for (rte_flow, an exact match). The device is told on the
// EAL's control thread, for that may take milliseconds; what it refuses stays handed over.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/transport/frame.hpp"
#include "providers/port/dpdk/misplaced_flows.hpp"

struct rte_flow;

namespace weft::port::dpdk {

class Steering {
 public:
  static constexpr size_t kMostRules = 256;  // of a device: the oldest makes room
  static constexpr Duration kLeastAge = Duration::from_ms(1000);
  static constexpr size_t kMostWishes = 64;  // that wait for the control thread

  // Of the Ethernet device `port`, whose engines have a queue each; `vlan` 0: none. Rules younger
  // than `least_age` never make room.
  Steering(uint16_t port, uint16_t queues, uint16_t vlan, Duration least_age = kLeastAge);
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;
  // Takes all rules away. Not while another call runs.
  ~Steering();

  // A frame for `engine` came to `queue`, whose engine hands it over and calls this. Too often, and
  // there is an ask().
  void misplaced(uint16_t queue, uint16_t engine, const transport::Frame& frame) noexcept;

  // A rule for `flow` to the queue of `engine`, on account of a queue pair of its. From any thread,
  // returns at once. A flow that has a rule keeps it: queue pairs of two engines may share a flow.
  void ask(const Flow& flow, uint16_t engine, QpNum number) noexcept;
  // The queue pair is gone, or never was: rules made on its account go, soon. Likewise.
  void forget(QpNum number) noexcept;

  uint64_t rules() const noexcept { return count_.load(std::memory_order_relaxed); }
  // Wishes that the device, or kMostRules, refused.
  uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Wish {
    Flow flow;
    QpNum number;
    uint16_t engine = 0;
    bool away = false;  // its queue pair has gone
  };
  struct Rule {
    Wish wish;
    rte_flow* handle = nullptr;
    Instant made;
  };

  void call() noexcept;
  void work() noexcept;
  // Carries out one wish, or takes one rule away. False: there was none.
  bool add_one(std::unique_lock<std::mutex>& lock) noexcept;
  bool remove_one(std::unique_lock<std::mutex>& lock) noexcept;
  bool has_rule(const Flow& flow) const noexcept;
  rte_flow* create(const Flow& flow, uint16_t queue) noexcept;
  static void work_of(void* steering) noexcept;

  const uint16_t port_, vlan_;
  const Duration least_age_;
  std::vector<MisplacedFlows> seen_;  // by each queue's engine
  std::atomic<uint64_t> count_{0}, refused_{0};
  std::atomic<bool> any_{false};  // rules or wishes: who has none to forget takes no lock

  // Under mutex_, which the control thread does not hold while the device is told.
  std::mutex mutex_;
  std::vector<Wish> wishes_;
  std::vector<Rule> rules_;  // the oldest first
  Wish making_;              // the wish that the control thread is at
  bool called_ = false;      // the control thread will come, or works
};

}  // namespace weft::port::dpdk
