// SPDX-License-Identifier: BSD-3-Clause
// Forests: exact limits of networks with known values, trees that reach them, schedules that are
// proven, on known and on random networks.
#include <algorithm>
#include <bit>

#include "lib/base/random.hpp"
#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/forests.hpp"
#include "lib/collective/model/limits.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tests/collective/model/known_topology.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

Topology bare(uint32_t chips) { return {.name = "test", .chips = chips, .nodes = chips}; }

Topology ring(uint32_t chips, bool both_ways) {
  Topology topology = bare(chips);
  for (uint32_t chip = 0; chip < chips; ++chip) {
    const uint32_t next = (chip + 1) % chips;
    if (both_ways)
      topology.connect(chip, next, 1, "x");
    else
      topology.links.push_back({chip, next, 1, "x", 0});
  }
  return topology;
}

Topology clique(uint32_t chips) {
  Topology topology = bare(chips);
  for (uint32_t a = 0; a < chips; ++a)
    for (uint32_t b = 0; b < a; ++b) topology.connect(a, b, 1, "x");
  return topology;
}

Topology cube() {
  Topology topology = bare(8);
  for (uint32_t chip = 0; chip < 8; ++chip)
    for (const uint32_t bit : {1U, 2U, 4U})
      if ((chip & bit) == 0) topology.connect(chip, chip | bit, 1, "x");
  return topology;
}

// Boxes of chips: each chip has `inner` to the switch of its box, and `outer` to one for all.
Topology boxes(uint32_t number, uint32_t each, double inner, double outer) {
  Topology topology = bare(number * each);
  const uint32_t all = outer > 0 ? topology.add_node() : 0;
  for (uint32_t box = 0; box < number; ++box) {
    const uint32_t hub = topology.add_node();
    for (uint32_t i = 0; i < each; ++i) {
      topology.connect(box * each + i, hub, inner, "inner");
      if (outer > 0) topology.connect(box * each + i, all, outer, "outer");
    }
  }
  return topology;
}

Topology leaf_and_spine(double to_spine) {
  Topology topology = bare(8);
  const uint32_t spine = topology.add_node();
  for (uint32_t leaf = 0; leaf < 2; ++leaf) {
    const uint32_t hub = topology.add_node();
    topology.connect(hub, spine, to_spine, "spine");
    for (uint32_t i = 0; i < 4; ++i) topology.connect(leaf * 4 + i, hub, 10, "leaf");
  }
  return topology;
}

// 4 to 24 chips: a random tree of links, some more of them, and perhaps a switch for some chips.
Topology random_network(uint64_t seed) {
  base::Random random(seed);
  Topology topology = bare(4 + static_cast<uint32_t>(random.below(21)));
  topology.link_s = 1e-6;
  const auto rate = [&] { return 1e9 * static_cast<double>(uint64_t{1} << random.below(4)); };
  const uint32_t chips = topology.chips;
  const auto joined = [&](uint32_t a, uint32_t b) {
    return std::any_of(topology.links.begin(), topology.links.end(),
                       [&](const NetworkLink& link) { return link.from == a && link.to == b; });
  };
  for (uint32_t chip = 1; chip < chips; ++chip)
    topology.connect(chip, static_cast<uint32_t>(random.below(chip)), rate(), "x");
  for (uint64_t more = random.below(2 * chips); more > 0; --more) {
    const uint32_t a = static_cast<uint32_t>(random.below(chips));
    const uint32_t b = static_cast<uint32_t>(random.below(chips));
    if (a != b && !joined(a, b)) topology.connect(a, b, rate(), "x");
  }
  if (random.below(2) == 0) {
    const uint32_t hub = topology.add_node();
    for (uint32_t chip = 0; chip < chips; ++chip)
      if (random.below(3) != 0) topology.connect(chip, hub, rate(), "switch");
  }
  return topology;
}

constexpr Collective kOperations[] = {Collective::all_gather, Collective::reduce_scatter,
                                      Collective::all_reduce, Collective::broadcast,
                                      Collective::reduce};

bool has_blocks_per_rank(Collective collective) {
  return gathers(collective) || scatters(collective);
}

const Algorithm& forest_algorithm(Collective collective) {
  return **find_algorithm("forest", collective, 2);
}

// Time over the lower bound for buffers of `bytes`, fp32.
double over_bound(Collective collective, double bytes, const Topology& topology, Forests& forests,
                  Routes& routes, bool& sound) {
  Shape shape{.collective = collective, .ranks = topology.chips};
  shape.count =
      static_cast<uint64_t>(bytes) / 4 / (has_blocks_per_rank(collective) ? topology.chips : 1);
  shape.forest = forests.of(collective, 0);
  REQUIRE(shape.forest != nullptr);
  const Prediction time = predict(forest_algorithm(collective), shape, 4, 4, topology, routes);
  const double whole =
      static_cast<double>(shape.count) * 4 * (has_blocks_per_rank(collective) ? topology.chips : 1);
  const Bound bound = lower_bound(collective, whole, topology);
  sound = time.seconds >= bound.seconds * (1 - 1e-6);
  return time.seconds / bound.seconds;
}

TEST_CASE("the limit of all_gather is that of the worst cut, on networks where it is known") {
  struct Row {
    const char* name;
    Topology topology;
    double seconds;  // of one unit of each block
  };
  const Row rows[] = {
      {"directed ring of 5", ring(5, false), 4},
      {"ring of 4", ring(4, true), 3.0 / 2},
      {"ring of 5", ring(5, true), 2},
      {"ring of 8", ring(8, true), 7.0 / 2},
      {"clique of 6", clique(6), 1},
      {"cube", cube(), 7.0 / 3},
      {"torus 3x3", make_torus({{"x", 3, 1}, {"y", 3, 1}}, 0), 2},
      {"torus 4x4", make_torus({{"x", 4, 1}, {"y", 4, 1}}, 0), 15.0 / 4},
      {"torus 4x4, one dimension twice as fast", make_torus({{"x", 4, 2}, {"y", 4, 1}}, 0),
       5.0 / 2},
      {"torus 4x4x4", make_torus({{"x", 4, 1}, {"y", 4, 1}, {"z", 4, 1}}, 0), 21.0 / 2},
      {"switch of 4", boxes(1, 4, 1, 0), 3},
      {"switch of 8", boxes(1, 8, 3, 0), 7.0 / 3},
      {"2 boxes of 4, slow between", boxes(2, 4, 10, 1), 1},
      {"2 boxes of 4, faster between", boxes(2, 4, 10, 2), 7.0 / 12},
      {"3 boxes of 4", boxes(3, 4, 10, 1), 2},
      {"leaves of 4, oversubscribed", leaf_and_spine(5), 4.0 / 5},
      {"leaves of 4", leaf_and_spine(20), 7.0 / 10},
      {"2 boxes of 8 at 300 and 25", boxes(2, 8, 300, 25), 3.0 / 65},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(1 / gather_limit(row.topology).bytes_per_s == Approx(row.seconds).epsilon(1e-9));
  }
}

TEST_CASE("one rank sends as fast as the least flow to another lets it") {
  CHECK(broadcast_limit(ring(8, true), 0).bytes_per_s == Approx(2));
  CHECK(broadcast_limit(make_torus({{"x", 4, 1}, {"y", 4, 1}}, 0), 0).bytes_per_s == Approx(4));
  CHECK(broadcast_limit(boxes(2, 4, 10, 2), 0).bytes_per_s == Approx(8));
}

TEST_CASE("the limit of all_reduce counts what must cross between groups, twice") {
  CHECK(all_reduce_limit(ring(8, true)).bytes_per_s == Approx(8.0 / 7));
  CHECK(all_reduce_limit(boxes(1, 4, 1, 0)).bytes_per_s == Approx(4.0 / 6));
  CHECK(all_reduce_limit(boxes(2, 4, 100, 1)).bytes_per_s == Approx(4));
}

TEST_CASE(
    "the fullest link of a forest carries 15 % more than the optimum at most, on known networks") {
  for (const char* const name : {"trn2-torus-4x4", "trn2-ultraserver-4x4x4", "trn3-nl32x2-gen1"}) {
    const Topology topology = known(name);
    Forests forests(topology);
    for (const Collective collective : kOperations) {
      const std::shared_ptr<const Forest> forest = forests.of(collective, 0);
      REQUIRE(forest != nullptr);
      INFO(name << " " << weft::name(collective) << ": height " << forest->height << ", load "
                << forest->load);
      CHECK(forest->load <= 1.15);
      CHECK(forest->load >= 1 - 1e-9);
      CHECK(forest->height <= 12);
      CHECK(forests.of(collective, 0) == forest);
    }
  }
}

TEST_CASE("large calls over a forest take little more than the bound, on known networks") {
  struct Row {
    const char* name;
    Collective collective;
    double most;
  };
  for (const Row& row : {Row{"trn2-torus-4x4", Collective::all_gather, 1.15},
                         Row{"trn2-torus-4x4", Collective::reduce_scatter, 1.15},
                         Row{"trn2-torus-4x4", Collective::all_reduce, 1.15},
                         Row{"trn2-torus-4x4", Collective::broadcast, 1.25},
                         Row{"trn2-ultraserver-4x4x4", Collective::all_gather, 1.15}}) {
    const Topology topology = known(row.name);
    Forests forests(topology);
    Routes routes(topology);
    bool sound = false;
    const double ratio = over_bound(row.collective, 256e6, topology, forests, routes, sound);
    INFO(row.name << " " << weft::name(row.collective) << ": " << ratio);
    CHECK(sound);
    CHECK(ratio <= row.most);
  }
}

TEST_CASE("schedules over forests of random networks are proven, and near the bound") {
  std::vector<double> ratios;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const Topology topology = random_network(seed);
    Forests forests(topology);
    Routes routes(topology);
    for (const Collective collective : kOperations) {
      INFO("seed " << seed << ", " << topology.chips << " chips, " << weft::name(collective));
      Shape shape{.collective = collective, .ranks = topology.chips, .count = 173};
      shape.exact = seed % 2 == 0 || !reduces(collective);
      shape.forest = forests.of(collective, 0);
      const Result<void> proven = verify(shape, programs_of(forest_algorithm(collective), shape));
      INFO((proven ? "" : proven.error().message));
      REQUIRE(proven);
      bool sound = false;
      ratios.push_back(over_bound(collective, 1e9, topology, forests, routes, sound));
      INFO("ratio " << ratios.back() << ", load " << shape.forest->load << ", height "
                    << shape.forest->height);
      CHECK(sound);
      // More where two chips are joined by a link and by a switch: routes are shortest paths,
      // so the trees leave the switch unused between them.
      CHECK(ratios.back() <= 1.6);
    }
  }
  std::sort(ratios.begin(), ratios.end());
  INFO("median " << ratios[ratios.size() / 2] << ", worst " << ratios.back());
  CHECK(ratios[ratios.size() / 2] <= 1.1);
}

TEST_CASE("two forests of one network are equal, and a lane less makes another") {
  const Topology topology = known("trn2-torus-4x4");
  Forests first(topology), second(topology);
  CHECK(first.of(Collective::all_gather, 0)->fingerprint ==
        second.of(Collective::all_gather, 0)->fingerprint);
  const Topology less = without(topology, {"x:0-4:all"});
  Forests third(less);
  CHECK(first.of(Collective::all_gather, 0)->fingerprint !=
        third.of(Collective::all_gather, 0)->fingerprint);
}

TEST_CASE("ranks that are equally near send from each root, or over each other rank") {
  const Forest blocks = forest_of_stars(5);
  CHECK((blocks.trees.size() == 5 && blocks.height == 1));
  const Forest vector = forest_of_stars(5, 2);
  CHECK((vector.trees.size() == 4 && vector.height == 2 && vector.trees_of(2) == 4));
  for (const SpanningTree& tree : vector.trees) CHECK(tree.children[2].size() == 1);
}

TEST_CASE("there is no forest for one chip, for too many, nor for all_to_all") {
  const Topology one = bare(1);
  CHECK(Forests(one).of(Collective::all_gather, 0) == nullptr);
  const Topology many = ring(kMaxSynthesisChips + 1, true);
  CHECK(Forests(many).of(Collective::all_gather, 0) == nullptr);
  const Topology few = ring(4, true);
  CHECK(Forests(few).of(Collective::all_to_all, 0) == nullptr);
}

}  // namespace
}  // namespace weft::collective
