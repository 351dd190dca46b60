// SPDX-License-Identifier: BSD-3-Clause
// Small networks and flow lists for the tests of the flow-fidelity simulator.
#pragma once

#include <string>
#include <vector>

#include "lib/sim/run/simulation.hpp"
#include "tests/support/catch.hpp"

namespace weft::sim::flow {

// Hosts 0..n-1 at one switch, node n; 1 us links.
inline fabric::Topology star(uint32_t hosts, uint32_t mbps = 100'000) {
  std::vector<fabric::Cable> cables;
  for (uint32_t i = 0; i < hosts; ++i) cables.push_back({i, hosts, mbps, 1000});
  Result<fabric::Topology> topology = fabric::Topology::make(std::move(cables));
  REQUIRE(topology);
  return *topology;
}

// Two leaves of `hosts` hosts each at 100G, two spines, 400G between them, 1 us links. Leaves are
// nodes 2n and 2n + 1, spines 2n + 2 and 2n + 3.
inline fabric::Topology leaf_spine(uint32_t hosts, uint32_t spine_mbps = 400'000) {
  std::vector<fabric::Cable> cables;
  for (uint32_t i = 0; i < 2 * hosts; ++i)
    cables.push_back({i, 2 * hosts + (i >= hosts), 100'000, 1000});
  for (uint32_t leaf = 0; leaf < 2; ++leaf)
    for (uint32_t spine = 2; spine < 4; ++spine)
      cables.push_back({2 * hosts + leaf, 2 * hosts + spine, spine_mbps, 1000});
  Result<fabric::Topology> topology = fabric::Topology::make(std::move(cables));
  REQUIRE(topology);
  return *topology;
}

inline std::vector<FlowSpec> incast(uint32_t senders, uint64_t bytes) {
  std::vector<FlowSpec> flows;
  for (uint32_t i = 1; i <= senders; ++i) flows.push_back({.src = i, .dst = 0, .bytes = bytes});
  return flows;
}

inline Parameters with(const std::vector<std::pair<std::string, std::string>>& settings) {
  Parameters parameters;
  for (const auto& [key, value] : settings) {
    const Result<void> set = parameters.set(key, value);
    INFO(key);
    REQUIRE(set);
  }
  return parameters;
}

inline RunResult simulate(const fabric::Topology& topology, const std::string& controller,
                          const std::vector<FlowSpec>& flows,
                          const Parameters& parameters = Parameters(),
                          const RunOptions& options = {}) {
  const Result<Scheme> scheme = make_scheme(controller, parameters, topology);
  INFO((scheme ? std::string() : scheme.error().message));
  REQUIRE(scheme);
  Result<RunResult> result = run(topology, *scheme, flows, options);
  INFO((result ? std::string() : result.error().message));
  REQUIRE(result);
  return *result;
}

}  // namespace weft::sim::flow
