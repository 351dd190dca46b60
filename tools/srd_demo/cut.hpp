// SPDX-License-Identifier: BSD-3-Clause
// Two SRD devices of this process, joined by several switches side by side, one for each path; what
// is seen while messages flow and one of the switches goes dark. One thread polls all of it in
// turn.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/switch/host.hpp"
#include "tools/switch/udp_hosts.hpp"
#include "weft/weft.hpp"

namespace weft::bench {

struct CutOptions {
  std::vector<std::string> hosts = {"127.9.1.1", "127.9.1.2"};  // sender, receiver
  uint32_t paths = 8;
  uint32_t cut = 3;          // the path that is cut
  uint32_t mbps = 25;        // of each path
  double delay_us = 500;     // of each cable, one way; two make a path
  uint32_t message = 65536;  // bytes
  double warm_up_s = 1, before_s = 2, after_s = 3;
  double settle_s = 0.2;  // after the cut, before throughput is measured again
  std::string keys;       // more of the devices, like "cc=swift"
};

// Of a frame of the largest size and its acknowledgement, where nothing waits.
double round_trip_us(const CutOptions& options);

// Of one path, over the time since the moment before.
struct PathMoment {
  PathHealth health = PathHealth::good;
  double rtt_us = 0;
  double packets_per_s = 0;
};
struct Moment {
  double at_s = 0;
  bool cut = false;
  double mbps = 0;  // of message bytes that were completed
  std::vector<PathMoment> paths;
};

struct Seen {
  double before_mbps = 0, after_mbps = 0;
  uint64_t messages = 0, bytes = 0, wrong_bytes = 0, errors = 0;
  double reroute_us = 0;          // from the cut to the last packet of data that went into it
  double longest_gap_us = 0;      // between two completions, before the cut
  double longest_gap_cut_us = 0;  // and from the cut on
  double longest_away_us = 0;     // between two looks: what the machine took from us
  uint64_t lost_in_cut = 0;       // packets
  std::vector<PathMoment> paths;  // at the end
};

class Cut {
 public:
  static Result<std::unique_ptr<Cut>> open(const CutOptions& options);
  using Show = std::function<void(const Moment&)>;
  // Errors are those of the library; a request that fails is counted, not an error of this.
  Result<Seen> run(const Show& show);

 private:
  static constexpr uint32_t kPosted = 16;  // messages

  static Result<QueuePair> make_ready(const Host& host);
  Result<void> make_ways();
  Result<void> post(uint64_t slot);
  Result<void> turn(Instant now);
  Result<void> poll_until(Instant end, const Show& show);
  void take(const Completion& done, Instant now);
  std::vector<PathMoment> look(double seconds);
  void cut(Instant now);

  CutOptions o_;
  std::unique_ptr<UdpHosts> hosts_;
  std::vector<std::unique_ptr<sim::Switch>> ways_;
  std::vector<sim::Switch*> all_ways_;
  std::unique_ptr<Host> from_, to_;
  QueuePair sending_, receiving_;
  AddressHandle target_;
  std::vector<uint64_t> sent_;  // packets of each path, at the last look
  uint64_t posted_ = 0, completed_bytes_ = 0;
  Instant begun_, cut_at_ = Instant::never(), completed_at_;
  uint64_t into_cut_ = 0;  // frames, at the last look
  Seen seen_;
};

}  // namespace weft::bench
