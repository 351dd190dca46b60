// SPDX-License-Identifier: BSD-3-Clause
// Flow rules of a device with several queues, which direct a flow to the queue of the engine that
// owns its queue pair. RSS does not see queue pairs: frames on the wrong queue are handed over, and
// a flow that stays on the wrong queue gets an exact-match rule (rte_flow). The EAL's control
// thread creates rules, since that may take milliseconds; a flow whose rule the device refuses
// stays handed over.
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
  static constexpr size_t kMaxRules = 256;  // of a device; a new one evicts the oldest
  static constexpr Duration kLeastAge = Duration::from_ms(1000);
  static constexpr size_t kMaxRequests = 64;  // queued for the control thread

  // For the Ethernet device `port`, whose engines have a queue each; `vlan` 0: none. Rules younger
  // than `least_age` are not evicted.
  Steering(uint16_t port, uint16_t queues, uint16_t vlan, Duration least_age = kLeastAge);
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;
  // Destroys all rules. Not while another call runs.
  ~Steering();

  // Counts a frame for `engine` that arrived on `queue`; the engine of `queue` calls this. At the
  // flow's threshold, requests a rule.
  void misplaced(uint16_t queue, uint16_t engine, const transport::Frame& frame) noexcept;

  // Requests a rule from `flow` to the queue of `engine`, owned by queue pair `number`. Any thread;
  // does not block. A flow keeps an existing rule: queue pairs of two engines may share a flow.
  void request_rule(const Flow& flow, uint16_t engine, QpNum number) noexcept;
  // The queue pair does not exist any more: schedules the removal of its rules. Any thread; does
  // not block.
  void forget(QpNum number) noexcept;

  uint64_t rules() const noexcept { return count_.load(std::memory_order_relaxed); }
  // Requests refused by the device or by kMaxRules.
  uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  struct RuleRequest {
    Flow flow;
    QpNum number;
    uint16_t engine = 0;
    bool qp_gone = false;
  };
  struct Rule {
    RuleRequest request;
    rte_flow* handle = nullptr;
    Instant made;
  };

  void schedule() noexcept;
  void run() noexcept;
  // Create a requested rule, or destroy one whose queue pair is gone. False: there was none.
  bool add_one(std::unique_lock<std::mutex>& lock) noexcept;
  bool remove_one(std::unique_lock<std::mutex>& lock) noexcept;
  bool has_rule(const Flow& flow) const noexcept;
  rte_flow* create(const Flow& flow, uint16_t queue) noexcept;
  static void run_of(void* steering) noexcept;

  const uint16_t port_, vlan_;
  const Duration least_age_;
  std::vector<MisplacedFlows> seen_;  // by each queue's engine
  std::atomic<uint64_t> count_{0}, refused_{0};
  std::atomic<bool> any_{false};  // rules or requests; forget() takes no lock without

  // Under mutex_, which the control thread releases while it calls the device.
  std::mutex mutex_;
  std::vector<RuleRequest> requests_;
  std::vector<Rule> rules_;  // the oldest first
  RuleRequest creating_;     // the request in progress on the control thread
  bool scheduled_ = false;   // run() is scheduled or running
};

}  // namespace weft::port::dpdk
