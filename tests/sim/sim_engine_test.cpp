// SPDX-License-Identifier: BSD-3-Clause
// Hosts that run the engine (`engine` fidelity) beside light hosts: the same flows through the same
// network give the same figures, PFC stops an engine as it stops a NIC, what is lost is sent again,
// and no frame is forgotten.
#include <algorithm>

#include "lib/base/random.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

Parameters engines(std::vector<std::pair<std::string, std::string>> settings = {}) {
  settings.emplace_back("host.fidelity", "engine");
  return with(settings);
}

// `count` flows of up to `most` bytes between random hosts, one every `gap_ns` on average.
std::vector<FlowSpec> random_flows(uint32_t count, uint32_t hosts, uint64_t most, int64_t gap_ns) {
  base::Random random(7);
  std::vector<FlowSpec> flows;
  int64_t at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    FlowSpec flow{.start_ns = at, .src = static_cast<uint32_t>(random.below(hosts))};
    flow.dst = static_cast<uint32_t>(random.below(hosts - 1));
    flow.dst += flow.dst >= flow.src;
    flow.bytes = 1 + random.below(most);
    flows.push_back(flow);
    at += static_cast<int64_t>(random.below(static_cast<uint64_t>(2 * gap_ns)));
  }
  return flows;
}

std::vector<double> slowdowns(const RunResult& result) {
  std::vector<double> list;
  for (const FlowResult& flow : result.flows) {
    REQUIRE(flow.fct_ns > 0);
    list.push_back(static_cast<double>(flow.fct_ns) / static_cast<double>(flow.ideal_ns));
  }
  std::sort(list.begin(), list.end());
  return list;
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(double(sorted.size()) * share))];
}

TEST_CASE("FCTs of engine hosts equal those of light hosts, under each kind of controller") {
  const char* const name =
      GENERATE("hpcc", "hpcc-pint", "dcqcn-hpccsim+win", "timely+win", "swift");
  INFO(name);
  const fabric::Topology network = leaf_spine(8);
  // 50 KB every 600 ns on 16 hosts of 100 Gb/s: 42 % of what they can send.
  const std::vector<FlowSpec> flows = random_flows(2000, 16, 100'000, 600);
  const std::vector<double> light =
      slowdowns(simulate(network, name, flows, with({{"net.payload", "1024"}})));
  const RunResult result = simulate(network, name, flows, engines());
  const std::vector<double> engine = slowdowns(result);
  CHECK(percentile(engine, 0.5) == Approx(percentile(light, 0.5)).epsilon(0.03));
  CHECK(percentile(engine, 0.95) == Approx(percentile(light, 0.95)).epsilon(0.05));
  CHECK(percentile(engine, 0.99) == Approx(percentile(light, 0.99)).epsilon(0.10));
  CHECK(result.counters.pauses == 0);
  CHECK(result.retransmitted == 0);
  CHECK(result.in_flight == 0);
}

TEST_CASE("an incast of engine hosts has the queue of light hosts") {
  const char* const name = GENERATE("hpcc", "hpcc-pint", "dcqcn-paper", "none+win");
  INFO(name);
  const fabric::Topology network = star(9);
  const std::vector<FlowSpec> flows = incast(8, 300'000);
  const RunResult light = simulate(network, name, flows, with({{"net.payload", "1024"}}));
  const RunResult engine = simulate(network, name, flows, engines());
  CHECK(engine.data_delivered == light.data_delivered);
  CHECK(double(engine.queues.percentile_kb(0.99)) ==
        Approx(double(light.queues.percentile_kb(0.99))).epsilon(0.05).margin(4));
  CHECK(double(engine.end_ns) == Approx(double(light.end_ns)).epsilon(0.02));
}

TEST_CASE("PFC with engine hosts: a small buffer drops nothing") {
  const std::vector<FlowSpec> flows = incast(8, 300'000);
  const auto small = [](Parameters parameters) {
    REQUIRE(parameters.set("switch.buffer_mb", "0.5"));
    return parameters;
  };
  const RunResult light =
      simulate(star(9), "dcqcn-paper", flows, small(with({{"net.payload", "1024"}})));
  const RunResult engine = simulate(star(9), "dcqcn-paper", flows, small(engines()));
  CHECK(light.counters.pauses > 0);
  CHECK(double(engine.counters.pauses) == Approx(double(light.counters.pauses)).epsilon(0.1));
  CHECK(engine.counters.dropped == 0);
  CHECK(engine.retransmitted == 0);
  slowdowns(engine);  // all are finished
}

TEST_CASE("without PFC a packet that a full buffer drops is retransmitted") {
  const char* const name = GENERATE("dcqcn-paper", "hpcc");  // hpcc: telemetry is lost with frames
  const std::vector<FlowSpec> flows = incast(8, 300'000);
  const RunResult result = simulate(
      star(9), name, flows,
      engines({{"switch.pfc", "0"}, {"switch.buffer_mb", "0.1"}, {"host.timeout_us", "50"}}));
  CHECK(result.counters.dropped > 0);
  CHECK(result.retransmitted > 0);
  slowdowns(result);
}

TEST_CASE("acknowledgements pass at hosts that send and receive at once") {
  // Both directions busy all the time: what one host sends must not keep back what it owes.
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < 4; ++i) {
    flows.push_back({.src = 0, .dst = 1, .bytes = 200'000});
    flows.push_back({.src = 1, .dst = 0, .bytes = 200'000});
  }
  const RunResult light = simulate(star(2), "hpcc", flows, with({{"net.payload", "1024"}}));
  const RunResult engine = simulate(star(2), "hpcc", flows, engines());
  CHECK(double(engine.end_ns) == Approx(double(light.end_ns)).epsilon(0.03));
}

TEST_CASE("engine hosts are deterministic: the same seed gives the same digest") {
  const std::vector<FlowSpec> flows = random_flows(200, 16, 50'000, 300);
  const RunResult first = simulate(leaf_spine(8), "dcqcn-paper", flows, engines(), {.seed = 5});
  const RunResult again = simulate(leaf_spine(8), "dcqcn-paper", flows, engines(), {.seed = 5});
  const RunResult other = simulate(leaf_spine(8), "dcqcn-paper", flows, engines(), {.seed = 6});
  CHECK(first.digest == again.digest);
  CHECK(first.digest != other.digest);
}

TEST_CASE("settings that engines do not support are refused with the remedy") {
  const auto refusal = [](const char* name, const Parameters& parameters) {
    const Result<Scheme> scheme = make_scheme(name, parameters, star(2));
    REQUIRE(!scheme);
    return scheme.error().message;
  };
  CHECK(refusal("hpcc", engines({{"net.payload", "1000"}})).find("1024") != std::string::npos);
}

}  // namespace
}  // namespace weft::sim::flow
