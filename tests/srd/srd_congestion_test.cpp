// SPDX-License-Identifier: BSD-3-Clause
// Congestion control in the SRD engine, in an incast around one switch: every flow ends, the last
// one soon after what the link allows, the queue is bounded, and little is lost.
#include <algorithm>
#include <cstdio>

#include "tests/srd/srd_star.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kFlowBytes = 500'000;

struct CongestionOutcome {
  double slowdown = 0;      // of the last flow against an ideal sharing of the link
  uint64_t most_bytes = 0;  // that waited before the receiver's link
  uint64_t late_bytes = 0;  // the same when the first windows of all have drained
  uint64_t dropped = 0;
  uint64_t sent_again = 0;
  uint64_t blind = 0;  // acknowledgements without the digest that the controller wants
};

// `senders` stations WRITE kFlowBytes each to station 0.
CongestionOutcome incast(const std::string& controller, uint32_t senders,
                         uint64_t buffer = 32u << 20, bool digests = false) {
  SrdOptions o = controlled(controller);
  o.stations = senders + 1;
  o.memory = kFlowBytes;
  o.config.paths = 8;
  SrdStar star(o, buffer, digests);
  for (uint32_t i = 1; i <= senders; ++i) {
    REQUIRE(star[i].write(star[0], kFlowBytes));
  }
  CongestionOutcome outcome;
  uint32_t done = 0;
  Instant last;
  uint64_t late = 0;
  REQUIRE(star.run_until(
      [&] {
        for (uint32_t i = 1; i <= senders; ++i)
          for (const Completion& c : star[i].sent()) {
            REQUIRE(c.status == Status::success);
            ++done;
            last = star.network.now();
          }
        const uint64_t waiting = star.node->device().queue_bytes(0);
        if (star.network.now() > Instant{} + Duration::from_us(1200))
          late = std::max(late, waiting);
        return done == senders;
      },
      Duration::from_s(2)));
  const double packets = (kFlowBytes + 4095) / 4096;
  const double wire = senders * (kFlowBytes + packets * 122.0);
  const double ideal_ps = wire * 8e12 / (kStarMbps * 1e6) + static_cast<double>(kStarRtt.ps);
  outcome.slowdown = static_cast<double>((last - Instant{}).ps) / ideal_ps;
  outcome.most_bytes = star.node->device().most_bytes(0);
  outcome.late_bytes = late;
  outcome.dropped = star.node->device().counters().dropped;
  for (uint32_t i = 1; i <= senders; ++i)
    outcome.sent_again += star[i].count(transport::Count::tx_retransmits);
  for (uint32_t i = 1; i <= senders; ++i)
    outcome.blind += star[i].count(transport::Count::acks_without_telemetry);
  std::printf(
      "%-10s %2u to 1: last %.3f of ideal, queue %llu kB, later %llu kB, dropped %llu, "
      "again %llu\n",
      controller.c_str(), senders, outcome.slowdown,
      static_cast<unsigned long long>(outcome.most_bytes / 1000),
      static_cast<unsigned long long>(outcome.late_bytes / 1000),
      static_cast<unsigned long long>(outcome.dropped),
      static_cast<unsigned long long>(outcome.sent_again));
  return outcome;
}

TEST_CASE("an incast of 60 or 48 to one completes in bounded time, with a bounded queue") {
  for (const char* controller : {"nscc", "rccc", "nscc+rccc"}) {
    INFO(controller);
    for (const uint32_t senders : {48u, 60u}) {
      const CongestionOutcome o = incast(controller, senders);
      CHECK(o.slowdown < 1.15);
      // Each sender begins with 1.5 times the bandwidth-delay product.
      CHECK(o.most_bytes < senders * 190'000);
      // Credit keeps what is in the network as it is; marks take it down to a packet of each.
      if (controller != std::string("rccc")) CHECK(o.late_bytes < senders * 4500);
      CHECK(o.dropped == 0);
    }
  }
}

TEST_CASE("an incast into a small buffer loses packets and does not collapse") {
  for (const char* controller : {"nscc", "nscc+rccc", "halved"}) {
    INFO(controller);
    const CongestionOutcome o = incast(controller, 60, 2u << 20);
    CHECK(o.dropped > 0);
    CHECK(o.slowdown < 1.5);
  }
}

TEST_CASE("an incast completes with the other controllers too") {
  for (const char* controller : {"none", "swift", "mswift", "dcqcn-nic"}) {
    INFO(controller);
    CHECK(incast(controller, 16).slowdown < 2);
  }
}

TEST_CASE("hpcc uses the digest that the switch writes into each packet") {
  for (const uint32_t senders : {48u, 60u}) {
    const CongestionOutcome o = incast("hpcc-pint", senders, 32u << 20, true);
    CHECK(o.slowdown < 1.2);  // 5 % of the link is left free, and it starts again slowly
    CHECK(o.most_bytes < senders * 190'000);
    // It targets a link that is not quite full: no queue after the first windows.
    CHECK(o.late_bytes < senders * 4500);
    CHECK(o.dropped == 0);
    CHECK(o.blind == 0);
  }
}

TEST_CASE("without digests hpcc uses its own queue, and counts that") {
  const CongestionOutcome o = incast("hpcc-pint", 16);
  CHECK(o.slowdown < 2);
  CHECK(o.blind > 0);
}

}  // namespace
}  // namespace weft::test
