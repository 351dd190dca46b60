// SPDX-License-Identifier: BSD-3-Clause
// Hosts that run the SRD engine (`engine` fidelity of controllers that spray) beside light hosts:
// the same flows through the same network take as long, with packets cut, dropped and sent into
// links that die, and no frame is forgotten.
#include <algorithm>
#include <cstdio>

#include "lib/base/random.hpp"
#include "lib/sim/scenario/networks.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::flow {
namespace {

// Light hosts with the bytes on the wire that the engine has.
Parameters light(std::vector<std::pair<std::string, std::string>> settings = {}) {
  settings.emplace_back("net.header", "90");  // 78 and the address that a WRITE's packets name
  settings.emplace_back("net.ack", "110");
  return with(settings);
}

Parameters engines(std::vector<std::pair<std::string, std::string>> settings = {}) {
  settings.emplace_back("host.fidelity", "engine");
  return with(settings);
}

// Every one of `hosts` sends to one other and receives from one.
std::vector<FlowSpec> permutation(uint32_t hosts, uint64_t bytes) {
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < hosts; ++i)
    flows.push_back({.src = i, .dst = (i + hosts / 2 + 1) % hosts, .bytes = bytes});
  return flows;
}

// The time of flow completion in us, at `share` of the flows; all must have ended.
double fct_us(const RunResult& result, double share) {
  std::vector<double> list;
  for (const FlowResult& flow : result.flows) {
    REQUIRE(flow.fct_ns > 0);
    list.push_back(static_cast<double>(flow.fct_ns) / 1000);
  }
  std::sort(list.begin(), list.end());
  return list[std::min(list.size() - 1, static_cast<size_t>(double(list.size()) * share))];
}

TEST_CASE("SRD engines that send and receive at once take as long as light hosts") {
  const char* const policy = GENERATE("oblivious", "bitmap", "reps", "mixed");
  INFO(policy);
  const fabric::Topology network = leaf_spine(8);
  const std::vector<FlowSpec> flows = permutation(16, 2'000'000);
  const RunResult small = simulate(network, "nscc", flows, light({{"path.policy", policy}}));
  const RunResult result = simulate(network, "nscc", flows, engines({{"path.policy", policy}}));
  CHECK(fct_us(result, 0.5) == Approx(fct_us(small, 0.5)).epsilon(0.05));
  CHECK(fct_us(result, 1.0) == Approx(fct_us(small, 1.0)).epsilon(0.08));
  CHECK(result.in_flight == 0);
  // What is sent twice was cut; reordering alone costs next to nothing.
  CHECK(result.retransmitted <= result.counters.trimmed + result.data_delivered / 500);
}

TEST_CASE("128 SRD engines of a three-tier fat tree: p99 within 1.16 of the ideal") {
  const fabric::Topology network = *scenario::make_fat_tree({.k = 8});
  const RunResult result = simulate(network, "nscc", permutation(128, 2'000'000), engines());
  CHECK(fct_us(result, 0.99) * 1000 < 1.16 * double(result.flows[0].ideal_ns));
  CHECK(result.retransmitted <= result.counters.trimmed + 32);  // of 64,000 packets
}

TEST_CASE("with an acknowledgement for four packets, p99 is within 1.20 of the ideal") {
  const char* const policy = GENERATE("bitmap", "reps", "mixed");
  INFO(policy);
  const fabric::Topology network = *scenario::make_fat_tree({.k = 8});
  const RunResult result = simulate(network, "nscc", permutation(128, 2'000'000),
                                    engines({{"ack.bytes", "16384"}, {"path.policy", policy}}));
  CHECK(fct_us(result, 0.99) * 1000 < 1.20 * double(result.flows[0].ideal_ns));
  // Fewer packets than with an acknowledgement for each.
  CHECK(result.counters.sent < result.data_delivered * 14 / 10);
}

TEST_CASE("an SRD engine alone takes the ideal time") {
  const RunResult result =
      simulate(leaf_spine(8), "nscc", {{.src = 0, .dst = 9, .bytes = 1'000'000}},
               engines({{"path.policy", "mixed"}}));
  CHECK(double(result.flows[0].fct_ns) / double(result.flows[0].ideal_ns) < 1.01);
  CHECK(double(result.flows[0].fct_ns) / double(result.flows[0].ideal_ns) > 0.99);
  CHECK(result.retransmitted == 0);
}

TEST_CASE("credit costs new SRD peers one round trip") {
  const char* const name = GENERATE("rccc", "nscc+rccc");
  INFO(name);
  const fabric::Topology network = *scenario::make_fat_tree({.k = 4});
  const std::vector<FlowSpec> flows = permutation(16, 1'000'000);
  const double small = fct_us(simulate(network, name, flows, light()), 1.0);
  CHECK(fct_us(simulate(network, name, flows, engines()), 1.0) < small + 20);
}

TEST_CASE("an incast of SRD engines: a trimmed packet is retransmitted once") {
  const char* const name = GENERATE("nscc", "rccc", "nscc+rccc");
  INFO(name);
  const std::vector<FlowSpec> flows = incast(15, 500'000);
  const RunResult small = simulate(star(16), name, flows, light());
  const RunResult result = simulate(star(16), name, flows, engines());
  CHECK(result.counters.trimmed > 100);
  CHECK(result.retransmitted == result.counters.trimmed);
  CHECK(result.counters.dropped == 0);
  CHECK(fct_us(result, 1.0) == Approx(fct_us(small, 1.0)).epsilon(0.15));
}

TEST_CASE("a 60-to-1 incast does not delay small messages to other hosts") {
  const fabric::Topology network = *scenario::make_fat_tree({.k = 8});
  base::Random random(5);
  std::vector<FlowSpec> small;
  for (int i = 0; i < 1000; ++i) {
    const auto src = static_cast<uint32_t>(1 + random.below(127));
    const auto dst = static_cast<uint32_t>(1 + (src + random.below(126)) % 127);
    small.push_back({.start_ns = static_cast<int64_t>(random.below(2'000'000)),
                     .src = src,
                     .dst = dst,
                     .bytes = 1 + random.below(4096)});
  }
  std::vector<FlowSpec> both = small;
  for (uint32_t i = 0; i < 60; ++i) both.push_back({.src = 2 * i + 1, .dst = 0, .bytes = 500'000});
  const RunResult idle = simulate(network, "nscc", small, engines());
  RunResult busy = simulate(network, "nscc", both, engines());
  CHECK(fct_us(busy, 1.0) < 2600);  // bound: 2,451
  busy.flows.resize(small.size());
  std::printf(
      "small messages beside 60 to one: p50 %.1f us, p99 %.1f us, longest %.1f us; idle %.1f, "
      "%.1f, %.1f\n",
      fct_us(busy, 0.5), fct_us(busy, 0.99), fct_us(busy, 1.0), fct_us(idle, 0.5),
      fct_us(idle, 0.99), fct_us(idle, 1.0));
  CHECK(fct_us(busy, 0.99) < 1.5 * fct_us(idle, 0.99));
}

TEST_CASE("without trimming SRD engines detect drops sooner than the RTO") {
  const std::vector<FlowSpec> flows = incast(15, 500'000);
  const std::vector<std::pair<std::string, std::string>> drops = {{"switch.trim", "0"},
                                                                  {"switch.queue", "20"}};
  // Which packets are dropped is a matter of the seed: the medians differ by a few per cent.
  double light_us = 0, engine_us = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RunResult small = simulate(star(16), "nscc", flows, light(drops), {.seed = seed});
    const RunResult result = simulate(star(16), "nscc", flows, engines(drops), {.seed = seed});
    CHECK(result.counters.dropped > 0);
    CHECK(result.retransmitted >= result.counters.dropped);
    light_us += fct_us(small, 0.5);
    engine_us += fct_us(result, 0.5);
    // Who loses the same packet again and again waits longer each time.
    CHECK(fct_us(result, 1.0) < 5000);
  }
  std::printf("medians of five seeds: light %.0f, engines %.0f us\n", light_us / 5, engine_us / 5);
  CHECK(engine_us < light_us);
}

TEST_CASE("an SRD engine recovers soon when its whole first window was dropped") {
  const char* const name = GENERATE("nscc", "rccc", "nscc+rccc");
  INFO(name);
  const std::vector<FlowSpec> flows = incast(16, 500'000);
  // The last of those that begin at once lose all that they send before they receive anything.
  const RunResult result =
      simulate(star(17), name, flows, engines({{"switch.trim", "0"}, {"switch.queue", "5"}}));
  std::printf("16 to 1 into 5 packets, %s: last flow %.0f us\n", name, fct_us(result, 1.0));
  CHECK(fct_us(result, 1.0) < 1000);  // bound: 662
}

TEST_CASE("retransmissions of SRD engines without RTT samples are spread") {
  const RunResult result = simulate(star(17), "nscc", incast(16, 500'000),
                                    engines({{"switch.trim", "0"}, {"switch.queue", "2"}}));
  std::printf("16 to 1 into 2 packets: last flow %.0f us\n", fct_us(result, 1.0));
  CHECK(fct_us(result, 1.0) < 8000);
}

TEST_CASE("SRD engines avoid a dead spine before routing detects it") {
  const fabric::Topology network = leaf_spine(8);
  const uint32_t leaf = 16, spine = 18;
  RunOptions options{.detection_ns = 50'000'000};
  options.link_changes = {{.at_ns = 40'000, .from = leaf, .to = spine, .both = true, .up = false}};
  const RunResult result =
      simulate(network, "nscc", permutation(16, 2'000'000), engines(), options);
  CHECK(result.counters.lost > 0);
  CHECK(fct_us(result, 1.0) < 3000);
}

TEST_CASE("random SRD engines: all flows end, all packets are accounted for, deterministic") {
  base::Random random(11);
  for (int round = 0; round < 10; ++round) {
    INFO(round);
    std::vector<FlowSpec> flows;
    for (uint32_t i = 0; i < 60; ++i) {
      const auto src = static_cast<uint32_t>(random.below(16));
      const uint64_t bytes = 1 + random.below(random.below(4) == 0 ? 600'000 : 9000);
      flows.push_back({.start_ns = static_cast<int64_t>(random.below(50'000)),
                       .src = src,
                       .dst = static_cast<uint32_t>(src + 1 + random.below(15)) % 16,
                       .bytes = bytes});
    }
    const Parameters parameters = engines({{"switch.trim", random.below(2) == 0 ? "1" : "0"},
                                           {"path.evs", random.below(2) == 0 ? "4" : "64"}});
    const char* const names[] = {"nscc", "rccc", "nscc+rccc"};
    const char* const name = names[random.below(3)];
    const RunResult first = simulate(leaf_spine(8), name, flows, parameters, {.seed = 3});
    const RunResult again = simulate(leaf_spine(8), name, flows, parameters, {.seed = 3});
    CHECK(first.digest == again.digest);
    fct_us(first, 1.0);
  }
}

TEST_CASE("settings that SRD engines do not support are refused") {
  const auto refusal = [](const Parameters& parameters) {
    const Result<Scheme> scheme = make_scheme("nscc", parameters, star(2));
    REQUIRE(!scheme);
    return scheme.error().message;
  };
  CHECK(refusal(engines({{"path.evs", "512"}})).find("256 at most") != std::string::npos);
  CHECK(refusal(engines({{"net.payload", "100"}})).find("256 at least") != std::string::npos);
}

}  // namespace
}  // namespace weft::sim::flow
