// SPDX-License-Identifier: BSD-3-Clause
// Sprayed flows in `flow` fidelity, against times and counts that follow from the definitions of
// the UEC reference runs (UEC simulator), and against what must hold in any network: nothing is
// lost unseen, every flow ends, an incast ends when its bytes are through.
#include <algorithm>

#include "lib/sim/scenario/networks.hpp"
#include "lib/sim/scenario/workload.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

const fabric::Topology& fat_tree() {
  static const fabric::Topology kTopology = *scenario::make_fat_tree({.k = 8});
  return kTopology;
}

int64_t last_fct(const RunResult& result) {
  int64_t last = 0;
  for (const FlowResult& flow : result.flows) {
    REQUIRE(flow.fct_ns > 0);
    last = std::max(last, flow.fct_ns);
  }
  return last;
}

// n x one flow's wire bytes at 100G behind one flow alone (UEC simulator).
int64_t incast_bound(uint64_t senders, uint64_t bytes, int64_t ideal_ns) {
  const uint64_t packets = (bytes + 4085) / 4086;
  return ideal_ns + static_cast<int64_t>((senders - 1) * (bytes + 64 * packets) * 8 / 100);
}

TEST_CASE("a flow alone over six links takes its ideal time, with one ACK per four packets") {
  for (const char* controller : {"nscc", "rccc", "nscc+rccc"}) {
    INFO(controller);
    const RunResult r =
        simulate(fat_tree(), controller, {{.src = 0, .dst = 127, .bytes = 2'000'000}});
    CHECK(r.flows[0].ideal_ns == 176'199);  // 176.2 us
    CHECK(r.data_delivered == 490);
    CHECK(r.retransmitted == 0);
    CHECK(r.counters.trimmed == 0);
    CHECK(r.counters.marked == 0);
    if (std::string(controller) == "nscc") {
      CHECK(r.flows[0].fct_ns == 176'199);
      CHECK(r.counters.sent == 490 + 124);
    } else {
      // 0.99 of line rate, once the first window is gone.
      CHECK(r.flows[0].fct_ns < 176'199 * 102 / 100);
    }
  }
}

TEST_CASE("every packet is acknowledged if the threshold is below one") {
  const RunResult r = simulate(fat_tree(), "nscc", {{.src = 0, .dst = 127, .bytes = 2'000'000}},
                               with({{"ack.bytes", "4000"}}));
  CHECK(r.counters.sent >= 2 * 489);
  CHECK(r.counters.sent <= 2 * 490);
  CHECK(r.flows[0].fct_ns == 176'199);
}

TEST_CASE("automatic parameters follow from the network") {
  const Result<Scheme> scheme = make_scheme("nscc", Parameters(), fat_tree());
  REQUIRE(scheme);
  CHECK(scheme->base_rtt_ns == Approx(14022.72).epsilon(1e-12));
  CHECK(scheme->presets[0].window_bytes == 175'284);
  CHECK(scheme->payload + scheme->header == 4150);
  CHECK(scheme->fabric.queue_bytes_per_gbps == 1784.5);
  CHECK(scheme->fabric.kmin_bytes_per_gbps == 373.5);
  CHECK(scheme->fabric.kmax_bytes_per_gbps == 1452.5);
  CHECK(scheme->fabric.marks_last_hop);
  CHECK(scheme->timeout_ps == 100'656'000);
  const Result<Scheme> dropping =
      make_scheme("nscc+rccc", with({{"switch.trim", "0"}, {"nscc.eta", "0.2"}}), fat_tree());
  REQUIRE(dropping);
  CHECK(dropping->fabric.queue_bytes_per_gbps == 8922.5);
  CHECK(dropping->fabric.kmin_bytes_per_gbps == 373.5);
  CHECK(!dropping->fabric.marks_last_hop);
  CHECK(dropping->timeout_ps == 443'280'000);
  CHECK(dropping->presets[0][1] == 1.0);  // target
  CHECK(dropping->presets[0][5] == 0.2);
}

TEST_CASE("an incast ends when the last link has sent its bytes, under each controller") {
  for (const char* controller : {"nscc", "rccc", "nscc+rccc"}) {
    for (const uint32_t senders : {4u, 16u, 60u}) {
      CAPTURE(controller, senders);
      const RunResult r = simulate(star(senders + 1), controller, incast(senders, 500'000));
      const int64_t bound = incast_bound(senders, 500'000, r.flows[0].ideal_ns);
      const int64_t last = last_fct(r);
      CHECK(last >= bound);
      CHECK(last < bound * 115 / 100);
      CHECK(r.counters.dropped == 0);
      // 1.5 BDP each into a queue of one: the first burst is cut.
      CHECK(r.counters.trimmed > 0);
      CHECK(r.retransmitted >= r.counters.trimmed);
    }
  }
}

TEST_CASE("without trimming a packet that does not fit is dropped and retransmitted after an RTO") {
  for (const char* controller : {"nscc", "rccc", "nscc+rccc"}) {
    INFO(controller);
    const RunResult r = simulate(star(17), controller, incast(16, 500'000),
                                 with({{"switch.trim", "0"}}), {.until_ns = 100'000'000});
    CHECK(r.counters.dropped > 0);
    CHECK(r.counters.trimmed == 0);
    CHECK(last_fct(r) > r.flows[0].ideal_ns);
  }
}

TEST_CASE("a control queue that is full loses acknowledgements, and every flow still ends") {
  // Queues of one packet: the control queue holds 129 headers, and 200 senders' come at a time.
  // What answers the receiver's own flow comes through the same queue.
  std::vector<FlowSpec> flows = incast(200, 50'000);
  flows.push_back({.src = 0, .dst = 1, .bytes = 400'000});
  for (const char* controller : {"nscc", "rccc", "nscc+rccc"}) {
    INFO(controller);
    const RunResult r =
        simulate(star(201), controller, flows, with({{"switch.queue", "1"}, {"ack.bytes", "1"}}),
                 {.until_ns = 1'000'000'000});
    CHECK(last_fct(r) > 0);
    CHECK(r.counters.trimmed > 0);
    CHECK(r.counters.dropped > 0);
  }
}

TEST_CASE("the link to the receiver marks, but not with receiver credit") {
  const RunResult nscc = simulate(star(5), "nscc", incast(4, 500'000));
  const RunResult rccc = simulate(star(5), "rccc", incast(4, 500'000));
  CHECK(nscc.counters.marked > 0);
  CHECK(rccc.counters.marked == 0);
}

TEST_CASE("spraying fills a fabric that one path per flow cannot") {
  base::Random random(4);
  const scenario::FlowList flows = scenario::permutation(fat_tree(), 500'000, 0, random);
  const auto last = [&](const char* policy) {
    return last_fct(simulate(fat_tree(), "nscc", flows, with({{"path.policy", policy}})));
  };
  const int64_t single = last("single");
  for (const char* policy : {"oblivious", "bitmap", "reps", "mixed"}) {
    INFO(policy);
    CHECK(last(policy) * 3 < single * 2);
  }
}

TEST_CASE("adaptive path policies avoid links that are slower in one direction") {
  fabric::Topology topology = fat_tree();
  // All that aggregation switch 160 gets from above.
  for (const uint32_t core : {192, 196, 200, 204}) REQUIRE(topology.degrade(core, 160, 25'000));
  base::Random random(4);
  const scenario::FlowList flows = scenario::permutation(topology, 2'000'000, 0, random);
  const int64_t blind =
      last_fct(simulate(topology, "nscc", flows, with({{"path.policy", "oblivious"}})));
  const int64_t looking =
      last_fct(simulate(topology, "nscc", flows, with({{"path.policy", "mixed"}})));
  CHECK(looking * 5 < blind * 4);
}

TEST_CASE("random networks and flows: all flows end, all packets are accounted for") {
  // The run itself checks conservation. Sizes around packets, starts in disorder, tight queues.
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    base::Random random(seed);
    std::vector<FlowSpec> flows;
    for (int i = 0; i < 60; ++i) {
      FlowSpec spec{.start_ns = static_cast<int64_t>(random.below(100'000)),
                    .src = static_cast<uint32_t>(random.below(8)),
                    .dst = static_cast<uint32_t>(random.below(8)),
                    .bytes = 1 + random.below(4086 * 40)};
      if (random.below(4) == 0) spec.bytes = 4086 * (1 + random.below(20));
      if (spec.src != spec.dst) flows.push_back(spec);
    }
    constexpr const char* kPolicies[] = {"single", "oblivious", "bitmap", "reps", "mixed", "plb"};
    constexpr const char* kControllers[] = {"nscc", "rccc", "nscc+rccc"};
    const char* const policy = kPolicies[random.below(6)];
    const char* const controller = kControllers[random.below(3)];
    const std::string queue = std::to_string(1 + random.below(20));
    const char* const trim = random.below(2) == 0 ? "0" : "1";
    CAPTURE(seed, policy, controller, queue, trim);
    const RunResult r =
        simulate(leaf_spine(4, 40'000), controller, flows,
                 with({{"path.policy", policy}, {"switch.queue", queue}, {"switch.trim", trim}}),
                 {.seed = seed, .until_ns = 5'000'000'000});
    CHECK(last_fct(r) > 0);
    uint64_t packets = 0;
    for (const FlowSpec& flow : flows) packets += (flow.bytes + 4085) / 4086;
    CHECK(r.data_delivered == packets);
  }
}

TEST_CASE("settings that spraying does not support are refused") {
  const Result<Scheme> scheme = make_scheme("nscc", Parameters(), star(3));
  REQUIRE(scheme);
  const std::vector<FlowSpec> flows = {{.src = 0, .dst = 1, .bytes = 1, .path = {0, 3, 1}}};
  const Result<RunResult> r = run(star(3), *scheme, flows, {});
  REQUIRE(!r);
  CHECK(r.error().message.find("nscc sends each packet over one of its own") != std::string::npos);
  Parameters parameters;
  const Result<void> set = parameters.set("path.policy", "random");
  REQUIRE(!set);
  CHECK(set.error().message.find("oblivious") != std::string::npos);
}

}  // namespace
}  // namespace weft::sim::flow
