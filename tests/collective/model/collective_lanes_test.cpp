// SPDX-License-Identifier: BSD-3-Clause
// Failed and redundant lanes: their effect on links, cuts, bounds, routes and schedules, from
// command line options and from files.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/lanes.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "tests/collective/model/known_topology.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

double cut(const Topology& topology, const std::string& name) {
  for (const Cut& each : topology.cuts)
    if (each.name == name) return capacity(topology, each) / 1e9;
  return 0;
}

double best_all_reduce(const Topology& topology, uint64_t count) {
  Routes routes(topology);
  double best = 1e9;
  for (const char* name : {"bucket", "hierarchical"}) {
    const Shape shape{.ranks = topology.chips, .count = count, .dimensions = topology.dimensions};
    const Algorithm& algorithm = **find_algorithm(name, shape.collective, shape.ranks);
    best = std::min(best, predict(algorithm, shape, 1, 1, topology, routes).seconds);
  }
  return best;
}

TEST_CASE("redundant lanes replace failed ones before a link gets slower") {
  const Topology whole = known("trn3-nl72x2-gen3");  // 64 lanes of 8 GB/s, and 16
  CHECK(cut(without(whole, {"backplane:5:16"}), "chip 5") == Approx(1152));
  CHECK(cut(without(whole, {"backplane:5:17"}), "chip 5") == Approx(1152 - 8));
  CHECK(cut(without(whole, {"backplane:5:10", "backplane:5:8"}), "chip 5") == Approx(1152 - 16));
  CHECK(cut(without(whole, {"backplane:5:80"}), "chip 5") == Approx(1152 - 512));
  // A cable has two ends; the racks have a little less between them.
  const Topology cable = without(whole, {"cross-rack:3-75:4"});
  CHECK(cut(cable, "chip 3") == Approx(1152 - 32));
  CHECK(cut(cable, "chip 75") == Approx(1152 - 32));
  CHECK(cut(cable, "first rack") == Approx(72 * 128 - 32));
  CHECK(cut(cable, "one chip") == Approx(1152));
}

TEST_CASE("bounds and schedules follow failed lanes") {
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  const Topology whole = known("trn3-nl72x2-gen3");
  const auto bound = [&](Collective collective, const Topology& topology) {
    return lower_bound(collective, kBytes, topology).seconds;
  };
  struct Loss {
    const char* dead;
    const char* chip;
  };
  for (const Loss& loss : {Loss{"backplane:5:48", "chip 5"}, Loss{"cross-rack:3:8", "chip 3"},
                           Loss{"cross-rack:3-75:all", "chip 75"}}) {
    const Topology hurt = without(whole, {loss.dead});
    INFO(loss.dead);
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter})
      CHECK(bound(collective, hurt) > 1.05 * bound(collective, whole));
    CHECK(bound(Collective::all_reduce, hurt) > bound(Collective::all_reduce, whole));
    CHECK(best_all_reduce(hurt, kBytes) >= bound(Collective::all_reduce, hurt));
    // The slowest chip determines the time of all.
    const double pace = 2.0 * kBytes * 143 / 144 / (cut(hurt, loss.chip) * 1e9);
    CHECK(best_all_reduce(hurt, kBytes) <= 1.15 * pace);
  }
}

TEST_CASE("routes avoid a link without lanes") {
  const Topology torus = known("trn2-torus-4x4");
  const Topology hurt = without(torus, {"y:5-6:all"});
  CHECK(hurt.links.size() == torus.links.size() - 2);
  Routes routes(hurt);
  CHECK(Routes(torus).hops(5, 6) == 0);
  CHECK(routes.hops(5, 6) == 2);
  CHECK(cut(hurt, "chip 5") == Approx(3 * 128));
  Topology lonely = torus;
  const Result<void> off =
      remove_dead_lanes(lonely, {*parse_dead_lanes("x:5:all"), *parse_dead_lanes("y:5:all")});
  REQUIRE(!off);
  CHECK(off.error().message.find("chip 5 of trn2-torus-4x4 is cut off") != std::string::npos);
}

TEST_CASE("invalid failed lanes are reported") {
  for (const char* const word : {"", "x", "x:1", ":1:2", "x:a:2", "x:1-:2", "x:1:2 ", "x:1:-2"}) {
    INFO(word);
    CHECK(!parse_dead_lanes(word));
  }
  Topology torus = known("trn2-torus-4x4");
  CHECK(
      remove_dead_lanes(torus, {*parse_dead_lanes("x:5:2")}).error().message.find("add [lanes]") !=
      std::string::npos);
  CHECK(
      remove_dead_lanes(torus, {*parse_dead_lanes("z:5:all")}).error().message.find("no z link") !=
      std::string::npos);
  CHECK(remove_dead_lanes(torus, {*parse_dead_lanes("x:5-6:all")})
            .error()
            .message.find("to chip 6") != std::string::npos);
}

TEST_CASE("files may define lanes and failed lanes") {
  const std::string file = "/tmp/weft-lanes-" + std::to_string(getpid()) + ".toml";
  const std::string torus =
      "link_latency_us = 1\n[torus]\nnames = [\"x\"]\nsizes = [4]\ngigabytes_per_s = [8]\n";
  const auto read = [&](const std::string& more) {
    std::ofstream(file) << torus + more;
    return read_topology(file);
  };
  const auto message = [&](const std::string& more) {
    const Result<Topology> topology = read(more);
    return topology ? "" : topology.error().message;
  };
  const std::string lanes = "[lanes]\nx = [8, 1]\n", dead = "[[dead]]\nmedium = \"x\"\nchip = 1\n";
  CHECK(message(lanes) == "");
  CHECK(cut(*read(lanes + dead + "peer = 2\nlanes = 3\n"), "chip 2") == Approx(16 - 2));
  CHECK(cut(*read(dead + "peer = 2\n"), "chip 2") == Approx(8));
  CHECK(message(dead + "lanes = 3\n").find("add [lanes]") != std::string::npos);
  CHECK(message(dead + "lane = 3\n").find("no such key: lane") != std::string::npos);
  CHECK(message(dead).find("cut off") != std::string::npos);
  CHECK(message("[[dead]]\nchip = 1\n").find("medium must be a string") != std::string::npos);
  for (const char* const wrong : {"8", "[8]", "[0, 1]", "[8, -1]", "[8, 1, 1]", "\"8\""}) {
    INFO(wrong);
    CHECK(message(std::string("[lanes]\nx = ") + wrong + "\n").find("[active, redundant]") !=
          std::string::npos);
  }
  CHECK(message(lanes + "cross_rack = [8, 1]\n")
            .find(":8: no such medium: cross_rack; there are x") != std::string::npos);
  CHECK(message("[[lanes]]\nx = [8, 1]\n").find("lanes must be a table") != std::string::npos);
  CHECK(message("[dead]\nmedium = \"x\"\n").find("dead must be a list") != std::string::npos);
  std::remove(file.c_str());
}

TEST_CASE("[[dead]] tables list failed lanes") {
  const std::string file = "/tmp/weft-dead-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "link_latency_us = 1\ndead = [\"x:5:all\"]\n"
                         "[torus]\nnames = [\"x\"]\nsizes = [4]\ngigabytes_per_s = [8]\n";
  const Result<Topology> topology = read_topology(file);
  std::remove(file.c_str());
  REQUIRE(!topology);
  CHECK(topology.error().message.find(":2: dead must be a list of tables") != std::string::npos);
}

}  // namespace
}  // namespace weft::collective
