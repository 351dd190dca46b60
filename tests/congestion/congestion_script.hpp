// SPDX-License-Identifier: BSD-3-Clause
// A flow on paper for the tests of controllers: one bottleneck whose queue and marks the test
// scripts, packets of 1000 B, one acknowledgement per step.
#pragma once

#include <cstdint>

#include "lib/congestion/digest.hpp"
#include "lib/congestion/registry.hpp"

namespace weft::congestion {

struct Step {
  int64_t gap_ns = 100;        // since the step before
  uint32_t queue_bytes = 0;    // at the bottleneck
  uint32_t sent_bytes = 1250;  // by the bottleneck since the step before: 1250 in 100 ns is 100G
  bool marked = false;
};

class ScriptedFlow {
 public:
  explicit ScriptedFlow(const Preset& preset) : preset_(preset) { controller_.start(preset); }

  void acknowledge(const Step& step) {
    now_ns_ += step.gap_ns;
    run_deadlines();
    sent_bytes_ += step.sent_bytes;
    acked_ += 1000;
    const IntHop hop{100'000, static_cast<uint32_t>(now_ns_), sent_bytes_, step.queue_bytes};
    Ack ack;
    ack.now = Instant{now_ns_ * 1000};
    // Base RTT and the queue at 100 Gb/s.
    ack.rtt = Duration::from_ns(static_cast<int64_t>(preset_.base_rtt_ns) +
                                int64_t{step.queue_bytes} * 8 / 100);
    ack.acked = acked_;
    ack.sent = acked_ + 150'000;
    ack.newly_acked = 1000;
    ack.packet_bytes = 1000;
    ack.marked = step.marked;
    ack.hops = {&hop, 1};
    // The bottleneck's utilisation as hpcc would see it.
    const double rate = step.sent_bytes * 8.0 / static_cast<double>(step.gap_ns) / 100;
    const double full = rate + step.queue_bytes * 8.0 / 100 / preset_.base_rtt_ns;
    ack.digest = encode_digest(full, 0.5);
    if (step.marked) controller_.on_cnp(preset_, ack.now);
    controller_.on_ack(preset_, ack);
    controller_.on_sent(preset_, 1000, ack.now);
  }

  // Time passes without acknowledgements.
  void wait(int64_t ns) {
    now_ns_ += ns;
    run_deadlines();
  }

  int64_t now_ns() const { return now_ns_; }
  const Controller& controller() const { return controller_; }

 private:
  void run_deadlines() {
    while (controller_.next_deadline().ps <= now_ns_ * 1000)
      controller_.on_deadline(preset_, controller_.next_deadline());
  }

  const Preset& preset_;
  Controller controller_;
  int64_t now_ns_ = 20'000;
  uint64_t acked_ = 0;
  uint32_t sent_bytes_ = 0;
};

}  // namespace weft::congestion
