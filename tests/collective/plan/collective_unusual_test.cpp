// SPDX-License-Identifier: BSD-3-Clause
// Unusual networks: odd sides, lines, one chip, racks of one tray, three levels of hierarchy,
// failed lanes in each medium. On each every algorithm is verified, and no time of the flow or
// packet model is below the lower bound, for 0 to many bytes.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/packet_model.hpp"
#include "lib/collective/model/selector.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tests/collective/model/known_topology.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

constexpr double kGiga = 1e9, kLink_s = 1e-6;

Topology torus(const std::vector<uint32_t>& sizes) {
  std::vector<TorusDimension> dimensions;
  for (size_t i = 0; i < sizes.size(); ++i)
    dimensions.push_back(
        {std::string(1, "xyz"[i]), sizes[i], static_cast<double>(1 + 3 * i) * kGiga});
  return make_torus(dimensions, kLink_s);
}

Topology racks(uint32_t count, uint32_t trays, uint32_t chips, bool tray_switch) {
  return make_switched_racks({.racks = count,
                              .trays = trays,
                              .chips_per_tray = chips,
                              .planes = 2,
                              .backplane = 5 * kGiga,
                              .tray = 4 * kGiga,
                              .cross_rack = kGiga,
                              .tray_switch = tray_switch},
                             kLink_s);
}

Topology railed(const Topology& domain, uint32_t domains, uint32_t lost) {
  return make_rails(
      domain,
      {.domains = domains, .planes = 3, .lost_planes = lost, .bytes_per_s = kGiga, .link_s = 5e-6});
}

// Eight lanes on every medium; some have failed.
Topology hurt(Topology topology, std::initializer_list<const char*> words) {
  for (const NetworkLink& link : topology.links) topology.lanes[link.medium] = {8, 0};
  return without(std::move(topology), words);
}

struct Network {
  const char* name;
  Topology topology;
};

std::vector<Network> networks() {
  return {{"one chip", torus({1})},
          {"two chips", torus({2})},
          {"a line's ring of 7", torus({1, 7})},
          {"3 x 3", torus({3, 3})},
          {"5 x 1 x 3", torus({5, 1, 3})},
          {"2 x 3 x 5", torus({2, 3, 5})},
          {"a tray", racks(1, 1, 4, true)},
          {"racks of a tray", racks(2, 1, 3, false)},
          {"three racks", racks(3, 3, 2, false)},
          {"trays of one chip", racks(2, 5, 1, false)},
          {"one domain", railed(torus({3}), 1, 0)},
          {"three levels", railed(racks(2, 2, 3, true), 3, 0)},
          {"three levels of rings, a plane lost", railed(torus({3, 2}), 5, 1)},
          {"3 x 3, a chip with an eighth", hurt(torus({3, 3}), {"x:8:7", "y:8:7"})},
          {"2 x 5, a ring cut", hurt(torus({2, 5}), {"y:1-2:all"})},
          {"5 x 1 x 3, nearly dead", hurt(torus({5, 1, 3}), {"x:14:7", "z:14:7"})},
          {"racks, dead lanes in each medium",
           hurt(racks(2, 3, 2, false), {"backplane:5:all", "tray:2-3:5", "cross-rack:0:7"})},
          {"racks, a chip without its tray",
           hurt(racks(2, 3, 4, true), {"tray:1:all", "cross-rack:6-18:all"})},
          {"three levels, dead rails",
           hurt(railed(racks(2, 2, 2, false), 3, 0), {"rail:4:all", "tray:9:3"})}};
}

bool fits(const Algorithm& algorithm, const Topology& topology) {
  return !has_blocks(algorithm.collective) &&
         (!algorithm.traits.power_of_two || std::has_single_bit(topology.chips));
}

Shape shape_of(const Algorithm& algorithm, const Topology& topology, uint64_t count) {
  Shape shape{.collective = algorithm.collective,
              .ranks = topology.chips,
              .root = topology.chips - 1,
              .count = count,
              .dimensions = topology.dimensions};
  shape.piece = model_piece(algorithm, count);
  return shape;
}

double bound_of(const Algorithm& algorithm, const Topology& topology, uint64_t count) {
  const bool per_rank = algorithm.collective == Collective::all_gather ||
                        algorithm.collective == Collective::reduce_scatter ||
                        algorithm.collective == Collective::all_to_all;
  const double bytes = static_cast<double>(count) * (per_rank ? topology.chips : 1);
  return lower_bound(algorithm.collective, bytes, topology).seconds;
}

TEST_CASE("every algorithm verifies on unusual networks") {
  for (const auto& [name, topology] : networks())
    for (const Algorithm& algorithm : algorithms())
      for (const uint64_t count : {0, 1, 7, 31}) {
        if (!fits(algorithm, topology)) continue;
        INFO(name << ": " << weft::name(algorithm.collective) << " " << algorithm.name << ", "
                  << count);
        const Shape shape = shape_of(algorithm, topology, count);
        const Result<void> proven = verify(shape, programs_of(algorithm, shape));
        CHECK((proven ? "" : proven.error().message) == "");
      }
}

TEST_CASE("no time is below its lower bound on unusual networks") {
  for (const auto& [name, topology] : networks()) {
    Routes routes(topology);
    for (const Algorithm& algorithm : algorithms())
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1009}, uint64_t{1} << 20}) {
        if (!fits(algorithm, topology)) continue;
        INFO(name << ": " << weft::name(algorithm.collective) << " " << algorithm.name << ", "
                  << count);
        const Shape shape = shape_of(algorithm, topology, count);
        const std::vector<Program> programs = programs_of(algorithm, shape);
        const double bound = bound_of(algorithm, topology, count) * (1 - 1e-6);
        const double flows = predict(shape, programs, 1, 1, topology, routes).seconds;
        CHECK(std::isfinite(flows));
        CHECK(flows >= bound);
        const PacketCall call{.shape = shape, .programs = &programs};
        const double packets =
            simulate_packets({&call, 1}, topology, routes, {.packet_bytes = 1 << 18}).seconds[0];
        CHECK(std::isfinite(packets));
        CHECK(packets >= bound);
      }
  }
}

TEST_CASE("the selector chooses an algorithm on unusual networks") {
  for (const auto& [name, topology] : networks()) {
    Selector selector(topology);
    for (const Collective collective :
         {Collective::all_reduce, Collective::all_to_all, Collective::reduce})
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 20) - 3}) {
        INFO(name << ": " << weft::name(collective) << ", " << count);
        const Choice choice = selector.choose({.collective = collective, .count = count});
        REQUIRE(choice.algorithm != nullptr);
        CHECK(std::isfinite(choice.seconds));
      }
  }
}

// A chip with fewer links may send less than others: a leaf of both trees sends its vector once.
TEST_CASE("the lower bound of an all-reduce is not that of a single slow chip") {
  const Topology topology = hurt(torus({3, 3}), {"x:8:7", "y:8:7"});
  constexpr double kBytes = 1 << 20;
  const double alone = kBytes / (2 * 5 * kGiga / 8);
  const Bound bound = lower_bound(Collective::all_reduce, kBytes, topology);
  CHECK(bound.seconds == Approx(alone));
  CHECK(bound.cut == "chip 8");
}

TEST_CASE("a dimension of size one gets no part of the vector") {
  constexpr uint64_t kCount = uint64_t{1} << 22;
  const auto time = [&](const std::vector<TorusDimension>& dimensions) {
    const Topology topology = make_torus(dimensions, 0);
    Routes routes(topology);
    const Algorithm& bucket = **find_algorithm("bucket", Collective::all_reduce, topology.chips);
    const Shape shape{.ranks = topology.chips, .count = kCount, .dimensions = topology.dimensions};
    return predict(bucket, shape, 1, 1, topology, routes).seconds;
  };
  const TorusDimension slow{"x", 4, kGiga}, fast{"y", 4, 4 * kGiga};
  CHECK(time({slow, {"one", 1, 7 * kGiga}, fast}) == Approx(time({slow, fast})).epsilon(0.01));
}

TEST_CASE("a network with unreachable chips is refused") {
  const std::string file = "/tmp/weft-unusual-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "link_latency_us = 1\n[switched]\nracks = 1\ntrays = 2\n"
                         "chips_per_tray = 2\nplanes = 2\nbackplane_gigabytes_per_s = 5\n"
                         "tray_gigabytes_per_s = 0\ncross_rack_gigabytes_per_s = 0\n";
  const Result<Topology> topology = read_topology(file);
  std::remove(file.c_str());
  REQUIRE(!topology);
  CHECK(topology.error().message.find("chip 1 has no path to chip 0") != std::string::npos);
}

}  // namespace
}  // namespace weft::collective
