// SPDX-License-Identifier: BSD-3-Clause
// Two senders and a receiver, production devices of this process on a switch of this process, and
// what is seen while one thread polls all of them round robin.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/switch/host.hpp"
#include "tools/switch/udp_hosts.hpp"
#include "weft/weft.hpp"

namespace weft::bench {

// One run, over the time that was measured.
struct Seen {
  double utilisation = 0;  // of the bottleneck: wire bytes that left / what it could have sent
  double mean_queue = 0;   // bytes before it
  uint32_t p50_queue = 0;  // sampled every 100 us
  uint32_t p95_queue = 0;
  uint32_t most_queue = 0;
  double fairness = 0;  // of the senders' bytes: Jain's index
  uint64_t marked = 0, dropped = 0, retransmitted = 0;
  double longest_gap_us = 0;  // between two looks at the devices: what the machine took from us
};

// Of the last tenth of a second.
struct Moment {
  uint32_t queue = 0;
  std::array<double, 2> mbps{};  // of the senders
  uint64_t marked = 0;
};

class Dumbbell {
 public:
  // `senders`, `receiver`: keys of their devices behind "roce+udp:ADDRESS,".
  static Result<std::unique_ptr<Dumbbell>> open(const std::vector<std::string>& hosts,
                                                const sim::SwitchOptions& options,
                                                const std::string& senders,
                                                const std::string& receiver, uint32_t mtu);
  using Show = std::function<void(const Moment&)>;
  Result<Seen> run(double warm_up_s, double measured_s, const Show& show);

 private:
  static constexpr uint32_t kMessage = 256 * 1024;
  static constexpr uint32_t kPosted = 8;  // messages of each sender

  struct Totals {
    Instant at;
    uint64_t sent = 0;               // through the bottleneck
    std::array<uint64_t, 2> from{};  // by sender
    uint64_t marked = 0, dropped = 0, retransmitted = 0;
  };
  Result<void> connect(size_t sender, Listener& listener, uint32_t mtu);
  Result<void> post(size_t sender);
  Result<bool> turn();
  Result<void> poll_until(Instant end, const Show& show, std::vector<uint32_t>& queue);
  Totals totals() const;
  void summarize(const Totals& before, const Totals& after, std::vector<uint32_t>& queue);

  std::unique_ptr<UdpHosts> hosts_;
  std::unique_ptr<sim::Switch> switch_;
  std::vector<std::unique_ptr<Host>> devices_;  // two senders, the receiver
  std::array<QueuePair, 2> sending_, receiving_;
  Seen seen_;
};

}  // namespace weft::bench
