// SPDX-License-Identifier: BSD-3-Clause
// Networks from a few numbers, drawn workloads, and TOML scenarios: the shipped ones read, wrong
// ones are told with line and key.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "lib/sim/scenario/logarithm.hpp"
#include "lib/sim/scenario/networks.hpp"
#include "lib/sim/scenario/scenario.hpp"
#include "tests/sim/sim_support.hpp"
#include "tests/support/paths.hpp"

namespace weft::sim::scenario {
namespace {

const std::filesystem::path kScenarios = test::source_root() / "scenarios";

TEST_CASE("built networks have the hosts, links and distances of their kind") {
  const auto hosts = [](const Result<fabric::Topology>& t) {
    REQUIRE(t);
    return t->hosts().size();
  };
  const Result<fabric::Topology> fat_tree = make_fat_tree({.k = 8});
  CHECK(hosts(fat_tree) == 128);
  CHECK(fat_tree->port_count() == 2 * 384);
  CHECK(fat_tree->diameter() == 6);
  // 4 Aggs x 4 cores lie between two pods; the first choice is the ToR's.
  CHECK(fat_tree->next_ports(fat_tree->to(fat_tree->ports_of(0)[0]), 127).size() == 4);
  const Result<fabric::Topology> hpcc = make_hpcc_320();
  CHECK(hosts(hpcc) == 320);
  CHECK(hpcc->port_count() == 2 * 480);
  CHECK(flow::largest_rtt_ns(*hpcc, 1000) == 12'240);
  CHECK(hosts(make_hpcc_testbed()) == 64);
  CHECK(hosts(make_dumbbell({.hosts = 3})) == 6);
  CHECK(hosts(make_leaf_spine({.hosts = 4, .leaves = 3, .spines = 2})) == 12);
  const Result<fabric::Topology> torus = make_torus({.k = 4, .dimensions = 3});
  CHECK(hosts(torus) == 64);
  CHECK(torus->distance(0, 42) == 2 + 6);  // (2, 2, 2): two steps in each dimension
  CHECK(!make_fat_tree({.k = 7}));
  CHECK(!make_star({.hosts = 1}));
}

TEST_CASE("the logarithm agrees with libm to a few ulps") {
  for (double x = 1e-16; x < 3; x *= 1.0007)
    REQUIRE(natural_log(x) == Approx(std::log(x)).epsilon(1e-13).margin(1e-15));
}

TEST_CASE("poisson arrivals offer the load, with the sizes of the distribution") {
  const Result<std::vector<SizePoint>> points =
      read_sizes((kScenarios / "workloads/cdf_websearch.csv").string());
  REQUIRE(points);
  const SizeDistribution sizes(*points);
  CHECK(sizes.mean() == Approx(1'711'250));
  base::Random random(1);
  const fabric::Topology topology = *make_hpcc_320();
  const FlowList flows = poisson(topology, sizes, 0.5, 20'000'000, random);
  double bytes = 0;
  size_t small = 0;
  for (size_t i = 0; i < flows.size(); ++i) {
    bytes += static_cast<double>(flows[i].bytes);
    small += flows[i].bytes <= 10'000;
    REQUIRE(flows[i].src != flows[i].dst);
    if (i > 0) REQUIRE(flows[i - 1].start_ns <= flows[i].start_ns);
  }
  // 320 x 12.5 B/ns x 50 % x 20 ms = 40 GB; some 23,000 flows with a deviation of about 2 %.
  CHECK(bytes == Approx(40e9).epsilon(0.05));
  CHECK(static_cast<double>(small) ==
        Approx(0.15 * static_cast<double>(flows.size())).epsilon(0.1));
}

TEST_CASE("flows of permutation, incast and all-to-all") {
  const fabric::Topology topology = *make_fat_tree({.k = 4});
  base::Random random(5);
  std::set<uint32_t> from;
  std::set<uint32_t> to;
  for (const flow::FlowSpec& f : permutation(topology, 1000, 0, random)) {
    CHECK(f.src != f.dst);
    from.insert(f.src);
    to.insert(f.dst);
  }
  CHECK(from.size() == 16);
  CHECK(to.size() == 16);
  std::set<uint32_t> senders;
  for (const flow::FlowSpec& f : scenario::incast(topology, 10, 3, 1000, 7, random)) {
    CHECK(f.dst == 3);
    CHECK(f.start_ns == 7);
    senders.insert(f.src);
  }
  CHECK(senders.size() == 10);
  CHECK(senders.count(3) == 0);
  CHECK(all_to_all(topology, 1000, 0).size() == 16 * 15);
  double bytes = 0;
  for (const flow::FlowSpec& f : incasts(topology, 5, 500'000, 0.02, 100'000'000, random))
    bytes += static_cast<double>(f.bytes);
  CHECK(bytes == Approx(0.02 * 16 * 12.5 * 1e8).epsilon(0.25));
}

// Without toml++ a build reads no scenario files (scenario.cpp says so in its error).
#if __has_include(<toml++/toml.h>)
TEST_CASE("every shipped scenario reads, and repeats with its seed") {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kScenarios)) {
    if (entry.path().extension() != ".toml") continue;
    INFO(entry.path().string());
    ++count;
    const Result<Scenario> one = read_scenario(entry.path().string(), 1);
    INFO((one ? std::string() : one.error().message));
    REQUIRE(one);
    CHECK(!one->title.empty());
    CHECK(one->flows.size() + one->jobs.size() > 0);
    const Result<Scenario> again = read_scenario(entry.path().string(), 1);
    REQUIRE(again->flows.size() == one->flows.size());
    if (!one->flows.empty()) CHECK(again->flows.back().bytes == one->flows.back().bytes);
    for (const std::string& controller : one->controllers)
      CHECK(flow::make_scheme(controller, flow::Parameters(), one->topology));
  }
  CHECK(count >= 6);
}

TEST_CASE("a scenario anywhere names the workloads and networks that come with weft") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("weft_elsewhere_" + std::to_string(getpid()) + ".toml");
  std::ofstream(path) << "[network]\nkind = \"fat-tree\"\nk = 8\n"
                         "degraded = \"networks/fat-tree-8-degraded.csv\"\n[[flows]]\n"
                         "kind = \"poisson\"\nsizes = \"websearch\"\nload = 0.5\nuntil = \"1ms\"\n";
  const Result<Scenario> scenario = read_scenario(path.string(), 1);
  std::filesystem::remove(path);
  INFO((scenario ? std::string() : scenario.error().message));
  REQUIRE(scenario);
  CHECK(!scenario->flows.empty());
  const Result<Scenario> named = read_scenario("incast-16", 1);
  REQUIRE(named);
  CHECK(named->flows.size() == 16);
  const Result<Scenario> none = read_scenario("incast-1600", 1);
  REQUIRE(!none);
  CHECK(none.error().message.find("incast-1600") != std::string::npos);
  CHECK(none.error().message.find("/scenarios") != std::string::npos);
}

std::string complaint(const std::string& text) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("weft_scenario_" + std::to_string(getpid()) + ".toml");
  std::ofstream(path) << text;
  const Result<Scenario> scenario = read_scenario(path.string(), 1);
  std::filesystem::remove(path);
  REQUIRE(!scenario);
  const std::string& message = scenario.error().message;
  return message.substr(message.find(".toml") + 5);
}

TEST_CASE("an invalid scenario is refused with line, key and reason") {
  const std::string net = "[network]\nkind = \"star\"\nhosts = 4\n";
  const std::string flows = "[[flows]]\nkind = \"permutation\"\nbytes = 1000\n";
  CHECK(complaint("[network\n").find(":1: ") == 0);
  CHECK(complaint(flows).find("no [network]") != std::string::npos);
  CHECK(complaint(net).find("no [[flows]]") != std::string::npos);
  CHECK(complaint("[network]\nkind = \"ring\"\n" + flows).find(":2: network.kind: kind must be") ==
        0);
  CHECK(complaint(net + "host = 5\n" + flows).find(":4: network.host: is no key here") == 0);
  CHECK(complaint(net + "gbps = \"fast\"\n" + flows).find(":4: network.gbps: must be a number") ==
        0);
  CHECK(complaint(net + "delay_ns = \"soon\"\n" + flows).find(":4: network.delay_ns: ") == 0);
  CHECK(complaint(net + flows + "[set]\n\"hpcc.etta\" = 1\n").find(":8: set: hpcc has no") == 0);
  CHECK(complaint(net + flows + "[run]\ncontroller = [\"hpcc\"]\n").find(":8: run.controller") ==
        0);
  CHECK(complaint(net + "[[flows]]\nkind = \"incast\"\nbytes = 1\nsenders = 2\nreceiver = 9\n")
            .find(":8: flows.receiver: is no host") == 0);
  CHECK(complaint(net + "[[flows]]\nkind = \"poisson\"\nsizes = \"unlisted\"\nload = 1\nuntil = "
                        "\"1ms\"\n")
            .find(":6: flows.sizes: ") == 0);
  const std::string event = net + flows + "[[events]]\nfrom = 0\nto = 4\n";
  CHECK(complaint(event + "state = \"down\"\n").find(":7: events.at: must say when") == 0);
  CHECK(complaint(event + "at = \"1us\"\n").find(":7: events.state: nothing happens") == 0);
  CHECK(complaint(event + "at = 1\nstate = \"off\"\n").find(":11: events.state: must be") == 0);
  CHECK(complaint(event + "at = 1\nloss = 2\n").find(":11: events.loss: must be within 0") == 0);
  CHECK(complaint(event + "at = 1\nloss = 0.1\nport = 3\n").find(":12: events.port: is no key") ==
        0);
  CHECK(complaint(net + flows + "[[events]]\nat = 1\nfrom = 0\nto = 1\nloss = 0.1\n")
            .find(":10: events.to: from and to must be two nodes") == 0);
  CHECK(complaint(net + flows + "class = 9\n").find(":7: flows.class: must be within 1 and 7") ==
        0);
  CHECK(complaint("colour = 1\n" + net + flows).find(":1: colour: is no key here") == 0);
}
#endif

}  // namespace
}  // namespace weft::sim::scenario
