// SPDX-License-Identifier: BSD-3-Clause
// The prediction by symmetry equals that of all ranks: the same time, the same bytes on every link;
// schedules that differ between ranks, or load the network unevenly, are not symmetric.
#include "lib/collective/model/symmetric.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

Topology railed_racks(uint32_t domains) {
  return make_rails(make_torus({{"x", 4, 10e9}, {"y", 2, 20e9}}, 1e-6),
                    {.domains = domains, .planes = 2, .bytes_per_s = 4e9, .link_s = 5e-6});
}

Topology racks(uint32_t planes) {
  return make_switched_racks({.racks = 2,
                              .trays = 4,
                              .chips_per_tray = 4,
                              .planes = planes,
                              .backplane = 50e9,
                              .tray = 50e9,
                              .cross_rack = 20e9,
                              .tray_switch = true},
                             1e-6);
}

struct Case {
  const char* algorithm;
  Collective collective;
  Topology topology;
  uint64_t count;
};

std::optional<Prediction> alike(const Case& c, Prediction* all = nullptr) {
  const Shape shape{.collective = c.collective,
                    .ranks = c.topology.chips,
                    .count = c.count,
                    .dimensions = c.topology.dimensions};
  const Algorithm& algorithm = **find_algorithm(c.algorithm, c.collective, shape.ranks);
  Routes routes(c.topology);
  if (all != nullptr)
    *all = predict(shape, programs_of(algorithm, shape), 4, 4, c.topology, routes);
  return predict_symmetric(algorithm, shape, 4, 4, c.topology, routes);
}

TEST_CASE("the prediction by symmetry equals that of all ranks") {
  for (const Case& c : {Case{"hierarchical", Collective::all_reduce, railed_racks(8), 1 << 20},
                        {"hierarchical", Collective::all_reduce, railed_racks(3), 3 << 20},
                        {"bucket", Collective::all_reduce, railed_racks(4), 1 << 16},
                        {"bucket", Collective::all_reduce, racks(4), 1 << 22},
                        {"bucket", Collective::all_reduce, racks(1), 1 << 22},
                        {"direct", Collective::all_to_all, make_torus({{"x", 5, 1e9}}, 1e-6), 999},
                        {"ring", Collective::all_gather, make_torus({{"x", 6, 1e9}}, 1e-6), 999}}) {
    INFO(c.algorithm << " of " << c.topology.chips);
    Prediction all;
    const std::optional<Prediction> one = alike(c, &all);
    REQUIRE(one);
    // The largest block counts for all ranks.
    CHECK(one->seconds == Approx(all.seconds).epsilon(2e-3));
    REQUIRE(one->link_bytes.size() == all.link_bytes.size());
    for (size_t link = 0; link < all.link_bytes.size(); ++link)
      CHECK(one->link_bytes[link] == Approx(all.link_bytes[link]).epsilon(2e-3));
  }
}

TEST_CASE("asymmetric schedules are detected") {
  const auto torus = [](uint32_t x, uint32_t y) {
    return make_torus({{"x", x, 1e9}, {"y", y, 1e9}}, 1e-6);
  };
  // A root; a ring that turns at the end of a row; a tree.
  CHECK(!alike({"direct", Collective::broadcast, torus(4, 1), 1000}));
  CHECK(!alike({"ring", Collective::all_reduce, torus(4, 4), 1 << 16}));
  CHECK(!alike({"double_tree", Collective::all_reduce, torus(4, 4), 1 << 16}));
  // Ranks of one program, on a network that is not the same everywhere: a cable is slower.
  Case slow{"bucket", Collective::all_reduce, torus(4, 4), 1 << 16};
  CHECK(alike(slow));
  slow.topology.links[5].bytes_per_s /= 2;
  CHECK(!alike(slow));
}

}  // namespace
}  // namespace weft::collective
