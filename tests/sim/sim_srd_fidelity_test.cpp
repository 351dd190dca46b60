// SPDX-License-Identifier: BSD-3-Clause
// `srd` fidelity: hosts run the SRD engine under any controller, also one that knows of one path
// only. The packets take all spines, nothing is forgotten, and what SRD cannot carry is refused.
#include <algorithm>
#include <cstdio>

#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

constexpr uint32_t kHosts = 8;  // of each of two leaves
constexpr uint32_t kLeaf = 2 * kHosts, kSpine = kLeaf + 2;

Parameters fidelity(const char* name, const char* policy = "mixed") {
  return with({{"host.fidelity", name}, {"path.policy", policy}});
}

// Each host of the first leaf sends to one of the second.
std::vector<FlowSpec> across(uint64_t bytes) {
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < kHosts; ++i)
    flows.push_back({.src = i, .dst = kHosts + i, .bytes = bytes});
  return flows;
}

int64_t last_ns(const RunResult& result) {
  int64_t last = 0;
  for (const FlowResult& flow : result.flows) {
    REQUIRE(flow.fct_ns > 0);
    last = std::max(last, flow.fct_ns);
  }
  return last;
}

double sent(const RunResult& result, uint32_t from, uint32_t to) {
  for (const PortUse& port : result.ports)
    if (port.from == from && port.to == to) return double(port.sent_bytes);
  FAIL("no such link");
  return 0;
}

TEST_CASE("SRD engines spray under every controller") {
  const char* const name = GENERATE("none", "swift", "mswift", "dctcp", "timely", "dcqcn-paper",
                                    "hpcc-pint", "nscc", "rccc");
  INFO(name);
  const fabric::Topology network = leaf_spine(kHosts);
  const std::vector<FlowSpec> flows = across(1'000'000);
  const RunResult result = simulate(network, name, flows, fidelity("srd"));
  const double slowdown = double(last_ns(result)) / double(result.flows[0].ideal_ns);
  CHECK(slowdown < 2);
  CHECK(result.counters.sent == result.counters.delivered + result.counters.dropped +
                                    result.counters.lost + result.in_flight);
  // 8 MB over two spines: about half on each, whatever a single path would carry.
  const double first = sent(result, kLeaf, kSpine);
  const double second = sent(result, kLeaf, kSpine + 1);
  CHECK(first / (first + second) == Approx(0.5).margin(0.05));
  const RunResult again = simulate(network, name, flows, fidelity("srd"));
  CHECK(again.digest == result.digest);
}

TEST_CASE("of a controller that sprays, srd and engine fidelity are the same") {
  const fabric::Topology network = leaf_spine(kHosts);
  const RunResult srd = simulate(network, "nscc", across(300'000), fidelity("srd"));
  const RunResult engine = simulate(network, "nscc", across(300'000), fidelity("engine"));
  CHECK(srd.digest == engine.digest);
  const RunResult roce =
      simulate(network, "swift", across(300'000), with({{"host.fidelity", "engine"}}));
  CHECK(simulate(network, "swift", across(300'000), fidelity("srd")).digest != roce.digest);
}

TEST_CASE("hpcc on its one-byte digest keeps the queue of an incast short") {
  const auto queue_kb = [](const char* name) {
    const RunResult result = simulate(star(5), name, incast(4, 3'000'000), fidelity("srd"));
    last_ns(result);
    return result.queues.percentile_kb(0.95);
  };
  CHECK(queue_kb("hpcc-pint") < queue_kb("nscc") / 2);
}

TEST_CASE("hpcc reduces its rate each round trip, also when nearly all packets are trimmed") {
  const RunResult result = simulate(star(31), "hpcc-pint", incast(30, 500'000), fidelity("srd"));
  std::printf("hpcc-pint, 30 to one: last %.0f us, %llu packets cut\n",
              double(last_ns(result)) / 1e3,
              static_cast<unsigned long long>(result.counters.trimmed));
  CHECK(result.counters.trimmed > 100);
  CHECK(result.retransmitted == result.counters.trimmed);
  CHECK(result.counters.trimmed < result.data_delivered);
  CHECK(double(last_ns(result)) < 1.25 * 30 * 500'000 * 0.08 * 4176 / 4086);
}

TEST_CASE("records of every hop do not fit into SRD") {
  const char* const name = GENERATE("hpcc", "powertcp");
  const Result<Scheme> scheme = make_scheme(name, fidelity("srd"), star(2));
  REQUIRE(!scheme);
  CHECK(scheme.error().message.find("no record of every hop") != std::string::npos);
  CHECK(make_scheme(name, with({{"host.fidelity", "engine"}}), star(2)));
}

}  // namespace
}  // namespace weft::sim::flow
