// SPDX-License-Identifier: BSD-3-Clause
// Several classes of data: strict order, shares by weight, a pause that stops one class and not
// the other, at switches and in the NIC; and that a class alone is as if there were none.
#include <algorithm>

#include "lib/sim/scenario/networks.hpp"
#include "lib/sim/scenario/workload.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

double gbps(const FlowSpec& flow, const FlowResult& result) {
  return static_cast<double>(flow.bytes) * 8 / static_cast<double>(result.fct_ns);
}

TEST_CASE("class scheduler: strict priority first, the others by weight, no credit for idle time") {
  fabric::ClassScheduler scheduler;
  const fabric::ClassWeights weights = {0, 0, 3, 1, 0, 0, 0, 0};
  CHECK(scheduler.pick(0b1110, weights) == 1);
  CHECK(scheduler.pick(0b11100, weights) == 4);  // strict, though of a higher number
  std::array<int, 8> bytes{};
  const auto serve = [&](uint32_t eligible, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const uint32_t c = scheduler.pick(eligible, weights);
      scheduler.charge(c, c == 2 ? 500 : 1500, weights);
      bytes[c] += c == 2 ? 500 : 1500;
    }
  };
  serve(0b1100, 1000);
  CHECK(bytes[2] == Approx(3 * bytes[3]).epsilon(0.01));
  serve(0b0100, 1000);  // class 3 has nothing to send
  bytes = {};
  serve(0b1100, 1000);
  CHECK(bytes[2] == Approx(3 * bytes[3]).epsilon(0.01));
}

TEST_CASE("a run with one data class gives the same result for every class") {
  std::vector<FlowSpec> flows = incast(8, 300'000);
  const uint64_t usual = simulate(star(9), "dcqcn-hpccsim", flows).digest;
  for (const uint8_t c : {1, 7}) {
    for (FlowSpec& flow : flows) flow.data_class = c;
    CHECK(simulate(star(9), "dcqcn-hpccsim", flows).digest == usual);
  }
}

TEST_CASE("strict priority: the lower class gets the whole link, at a switch and in a NIC") {
  for (const bool one_nic : {false, true}) {
    // Not hpcc: its telemetry is of the whole link, so it takes a fair share, not what is there.
    for (const char* controller : {"none", "none+win"}) {
      INFO(controller << (one_nic ? ", one NIC" : ", one switch port"));
      const std::vector<FlowSpec> flows = {
          {.src = 0, .dst = 2, .bytes = 5'000'000, .data_class = 5},
          {.src = one_nic ? 0u : 1u, .dst = 2, .bytes = 5'000'000, .data_class = 2}};
      const fabric::Topology topology = star(3);
      const RunResult r = simulate(topology, controller, flows);
      const RunResult alone = simulate(topology, controller, {flows[1]});
      // A packet of the other class may be before each of its own: non-preemptive.
      CHECK(r.flows[1].fct_ns <= alone.flows[0].fct_ns * 1.1);
      CHECK(r.flows[0].fct_ns >= r.flows[1].fct_ns);
      CHECK(r.counters.dropped == 0);
    }
  }
}

TEST_CASE("weights share a link in their proportion, at a switch and in a NIC") {
  for (const bool one_nic : {false, true}) {
    INFO(one_nic);
    // Class 2 ends first; until then class 4 has a quarter.
    const std::vector<FlowSpec> flows = {
        {.src = 0, .dst = 2, .bytes = 9'000'000, .data_class = 2},
        {.src = one_nic ? 0u : 1u, .dst = 2, .bytes = 30'000'000, .data_class = 4}};
    const RunResult r =
        simulate(star(3), "none", flows, with({{"class.2", "3"}, {"class.4", "1"}}));
    CHECK(gbps(flows[0], r.flows[0]) == Approx(75 * 1000 / 1048.0).epsilon(0.03));
  }
}

TEST_CASE("a PAUSE stops only its class") {
  // Class 6 piles up for host 0 through the spine until its senders' links are paused; class 1
  // shares those links on the way to another host.
  const fabric::Topology topology = leaf_spine(8, 100'000);
  std::vector<FlowSpec> flows;
  for (uint32_t i = 8; i < 16; ++i)
    flows.push_back({.src = i, .dst = 0, .bytes = 2'000'000, .data_class = 6});
  for (uint32_t i = 8; i < 16; ++i)
    flows.push_back(
        {.start_ns = 300'000, .src = i, .dst = i - 7, .bytes = 20'000, .data_class = 1});
  flows.pop_back();  // to host 8
  const auto slowest = [&](const RunResult& r) {
    int64_t most = 0;
    for (size_t i = 8; i < flows.size(); ++i) most = std::max(most, r.flows[i].fct_ns);
    return most;
  };
  const Parameters small = with({{"switch.buffer_mb", "8"}});
  const RunResult classed = simulate(topology, "none", flows, small);
  CHECK(classed.counters.pauses > 0);
  CHECK(classed.counters.dropped == 0);
  CHECK(classed.paused_ns > 0);
  for (FlowSpec& flow : flows) flow.data_class = 3;
  const RunResult together = simulate(topology, "none", flows, small);
  CHECK(together.counters.pauses > 0);
  CHECK(slowest(classed) < 40'000);
  CHECK(slowest(together) > 10 * slowest(classed));
}

TEST_CASE("classes under every controller: all flows end, no drops, seeds are reproducible") {
  const fabric::Topology topology = *scenario::make_fat_tree({.fabric_mbps = 50'000, .k = 4});
  for (const congestion::Kind* kind : congestion::kinds()) {
    if (kind->sprayed) continue;
    const std::string name(kind->name);
    INFO(name);
    base::Random random(7);
    std::vector<FlowSpec> flows = scenario::incast(topology, 12, 3, 200'000, 0, random);
    const auto more = scenario::permutation(topology, 300'000, 10'000, random);
    flows.insert(flows.end(), more.begin(), more.end());
    for (size_t i = 0; i < flows.size(); ++i) flows[i].data_class = static_cast<uint8_t>(1 + i % 4);
    const Parameters parameters =
        with({{"switch.buffer_mb", "1"}, {"class.3", "2"}, {"class.4", "1"}});
    const RunResult r = simulate(topology, name, flows, parameters);
    CHECK(r.counters.dropped == 0);
    for (const FlowResult& flow : r.flows) CHECK(flow.fct_ns > 0);
    CHECK(simulate(topology, name, flows, parameters).digest == r.digest);
  }
}

TEST_CASE("a scheme that sprays refuses flows of several classes") {
  const fabric::Topology topology = star(3);
  const Result<Scheme> scheme = make_scheme("nscc", Parameters(), topology);
  const std::vector<FlowSpec> flows = {{.src = 0, .dst = 2, .bytes = 1, .data_class = 1},
                                       {.src = 1, .dst = 2, .bytes = 1}};
  const Result<RunResult> r = run(topology, *scheme, flows, {});
  REQUIRE(!r);
  CHECK(r.error().message.find("all data in one") != std::string::npos);
}

}  // namespace
}  // namespace weft::sim::flow
