// SPDX-License-Identifier: BSD-3-Clause
// The networks of scenarios/collectives with rails, and those whose sources disagree: capacities of
// cuts, and hop counts.
#include "lib/collective/model/topology_file.hpp"
#include "tests/collective/model/known_topology.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

// GB/s
double cut_named(const Topology& topology, const std::string& name) {
  for (const Cut& cut : topology.cuts)
    if (cut.name == name) return capacity(topology, cut) / 1e9;
  FAIL("no cut " << name);
  return 0;
}

TEST_CASE("rails divide the bandwidth of an instance over its chips") {
  struct Row {
    const char* name;
    uint32_t chips, neighbour_hops;  // of a domain; to a neighbour's place in another domain
    double inside, rail;             // GB/s of a chip
  };
  for (const Row& row : {Row{"trn1-x4-torus-4x4-800g", 16, 2, 4 * 48, 800.0 / 16 / 8},
                         Row{"trn1-x4-torus-4x4-1600g", 16, 2, 4 * 48, 1600.0 / 16 / 8},
                         Row{"trn2-x4-torus-4x4-200g", 16, 2, 4 * 128, 25},
                         Row{"trn2-x4-torus-4x4-400g", 16, 2, 4 * 128, 50},
                         Row{"trn3-x4-nl32x2-gen1-200g", 64, 2, 1152, 25},
                         Row{"trn3-x4-nl32x2-gen1-400g", 64, 2, 1152, 50},
                         Row{"trn3-x4-nl72x2-gen3-200g", 144, 3, 1152, 25},
                         Row{"trn3-x4-nl72x2-gen3-400g", 144, 3, 1152, 50}}) {
    INFO(row.name);
    const Topology topology = known(row.name);
    REQUIRE(topology.chips == 4 * row.chips);
    CHECK(topology.racks == 4);
    REQUIRE(topology.dimensions[0] == Dimension{4, row.rail * 1e9, false});
    CHECK(cut_named(topology, "one chip") == Approx(row.inside + row.rail));
    CHECK(cut_named(topology, "one domain") == Approx(row.chips * row.rail));
    Routes routes(topology);
    CHECK(routes.hops(0, row.chips) == 1);  // a plane
    CHECK(routes.between(0, row.chips).latency_s == Approx(15e-6));
    CHECK(routes.hops(0, row.chips + 1) == row.neighbour_hops);
    CHECK(routes.between(0, 3 * row.chips).shares.size() == 4);  // two planes
  }
}

TEST_CASE("profiles of sources that disagree coexist") {
  CHECK(cut_named(known("trn1-torus-4x4"), "one chip") == Approx(384 / 2));
  CHECK(cut_named(known("trn1-torus-4x4-768"), "one chip") == Approx(768 / 2));
  CHECK(cut_named(known("trn1-torus-4x4-768"), "half of x") == Approx(8 * 96));
  const double table = 2048.0 * (1 << 30) / 1e9 / 2;  // GiB/s, both directions
  for (const auto& [name, chip] : {std::pair{"trn3-nl72x2-gen2-awsdoc", 704.0},
                                   {"trn3-nl72x2-gen2-awstable", table},
                                   {"trn3-nl72x2-gen2-sa", 1152.0}}) {
    INFO(name);
    const Topology topology = known(name);
    CHECK(topology.chips == 144);
    CHECK(cut_named(topology, "one chip") == Approx(chip).epsilon(1e-3));
    CHECK(cut_named(topology, "first rack") == Approx(72 * 128));  // what all agree about
    Routes routes(topology);
    CHECK(routes.hops(0, 4) == 1);   // the same plane
    CHECK(routes.hops(0, 72) == 0);  // a cable
  }
}

}  // namespace
}  // namespace weft::collective
