// SPDX-License-Identifier: BSD-3-Clause
// The simulator's figures come out the same from every compiler and optimization: the digest of a
// run per controller, with roomy and with tight buffers, against the file tests/snapshot has. Run
// it under each preset. A change of the model changes them: then look why, and set
// WEFT_UPDATE_SNAPSHOTS to write them anew.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/sim/scenario/networks.hpp"
#include "lib/sim/scenario/workload.hpp"
#include "tests/sim/sim_support.hpp"
#include "tests/support/paths.hpp"

namespace weft::sim::flow {
namespace {

const std::filesystem::path kTests = test::source_root() / "tests";

// FB_Hadoop at 60 % and a 12-to-1 incast in a fat tree whose fabric is half as fast as its hosts.
std::vector<FlowSpec> mixed_flows(const fabric::Topology& topology) {
  base::Random random(3);
  const Result<std::vector<scenario::SizePoint>> points = scenario::read_sizes(
      (kTests.parent_path() / "scenarios/workloads/cdf_fb_hadoop.csv").string());
  REQUIRE(points);
  scenario::FlowList flows =
      scenario::poisson(topology, scenario::SizeDistribution(*points), 0.6, 200'000, random);
  const scenario::FlowList more = scenario::incast(topology, 12, 3, 200'000, 50'000, random);
  flows.insert(flows.end(), more.begin(), more.end());
  return flows;
}

TEST_CASE("digests of runs equal the snapshot, from every compiler") {
  const fabric::Topology topology = *scenario::make_fat_tree({.fabric_mbps = 50'000, .k = 4});
  const std::vector<FlowSpec> flows = mixed_flows(topology);
  const Parameters roomy = with({{"net.floor_ns", "1"}});
  const Parameters tight = with({{"switch.buffer_mb", "0.5"}});
  std::string text;
  for (const congestion::Kind* kind : congestion::kinds()) {
    for (const Parameters* parameters : {&roomy, &tight}) {
      const RunResult r =
          simulate(topology, std::string(kind->name), flows, *parameters, {.until_ns = 20'000'000});
      CHECK(r.counters.dropped == 0);
      char line[100];
      std::snprintf(line, sizeof line, "%-16s %-6s %016llx pauses %llu\n",
                    std::string(kind->name).c_str(), parameters == &roomy ? "roomy" : "tight",
                    static_cast<unsigned long long>(r.digest),
                    static_cast<unsigned long long>(r.counters.pauses));
      text += line;
    }
  }
  const std::filesystem::path path = kTests / "snapshot/netsim_digests.txt";
  if (std::getenv("WEFT_UPDATE_SNAPSHOTS") != nullptr) std::ofstream(path) << text;
  std::ifstream in(path);
  std::stringstream on_file;
  on_file << in.rdbuf();
  CHECK(text == on_file.str());
}

}  // namespace
}  // namespace weft::sim::flow
