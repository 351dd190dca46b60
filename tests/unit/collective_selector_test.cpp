// SPDX-License-Identifier: BSD-3-Clause
// Choosing by the model: against the best there is, on a grid of calls and networks; and in a real
// group, which remembers what was chosen, predicted and seen.
#include <unistd.h>

#include <bit>
#include <fstream>

#include "lib/collective/model/selector.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/collective_ranks.hpp"

namespace weft::collective {
namespace {

constexpr Collective kOperations[] = {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast,
                                      Collective::reduce,     Collective::all_to_all};

constexpr uint64_t kSizes[] = {48, 3'000, 40'000, 700'000, 5'000'000, 3ULL << 27};

// Chips of one switch.
Topology star(uint32_t chips) {
  Topology topology = make_switched_racks(
      {.racks = 1, .trays = chips, .chips_per_tray = 1, .planes = 1, .backplane = 50e9}, 1e-6);
  topology.name = "star of " + std::to_string(chips);
  return topology;
}

double best_seconds(const Question& question, const Topology& topology, Routes& routes) {
  double best = 1e9;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == question.collective &&
        (!algorithm.traits.power_of_two || std::has_single_bit(topology.chips)))
      best = std::min(best, model_seconds(algorithm, question, topology, routes));
  return best;
}

TEST_CASE("the chosen algorithm takes at most a tenth more than the best, all over a grid") {
  std::vector<Topology> networks = {star(6), star(8)};
  for (const char* name : {"trn1-torus-4x4", "trn2-torus-4x4", "trn2-ultraserver-4x4x4",
                           "trn3-nl32x2-gen1", "trn3-nl72x2-gen1"})
    networks.push_back(*read_topology(
        (test::source_root() / "scenarios/collectives" / (std::string(name) + ".toml")).string()));
  for (const Topology& network : networks) {
    Selector selector(network);
    Routes routes(network);
    for (const Collective operation : kOperations)
      for (const uint64_t bytes : kSizes) {
        const Question question{.collective = operation,
                                .count = std::max<uint64_t>(1, bytes / 4 / network.chips),
                                .element = 4,
                                .accumulator = 4};
        const Choice choice = selector.choose(question);
        const double taken = model_seconds(*choice.algorithm, question, network, routes);
        INFO(network.name << " " << name(operation) << " " << bytes
                          << " bytes: " << choice.algorithm->name);
        CHECK(taken <= 1.1 * best_seconds(question, network, routes));
        CHECK(choice.seconds <= 1.15 * taken);
        CHECK(choice.seconds >= taken / 1.15);
      }
  }
}

TEST_CASE("what is to be added in the order of ranks is chosen among what does") {
  Selector selector(star(8));
  for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 24}) {
    Question question{.count = count, .rank_order = true};
    const std::string_view ordered = selector.choose(question).algorithm->name;
    CHECK((ordered == "direct" || ordered == "single_step"));
  }
}

TEST_CASE("a group with a network chooses by it, and keeps prediction and time of each call") {
  const std::string file = "/tmp/weft-network-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "link_latency_us = 1\n[torus]\nnames = [\"x\"]\nsizes = [4]\n"
                         "gigabytes_per_s = [1]\n";
  Selector expected(*read_topology(file));
  const auto body = [&](Communicator& group) -> std::string {
    for (const size_t count : {size_t{4}, size_t{200'000}}) {
      std::vector<float> data(count, 1.0F);
      Operation sum = group.all_reduce(data.data(), data.data(), count, DataType::fp32);
      if (Result<void> done = sum.wait(); !done) return done.error().message;
      if (data[count - 1] != 4.0F) return "wrong sum";
      Selector own(expected.topology());
      const Choice choice = own.choose({.count = count, .element = 4, .accumulator = 4});
      if (sum.algorithm() != choice.algorithm->name)
        return std::string(sum.algorithm()) + ", not " + std::string(choice.algorithm->name);
      if (sum.predicted().ps <= 0 || sum.took().ps <= 0) return "no prediction, or no time";
    }
    const std::string trace = group.trace();
    return test::contains(trace, "\"algorithm\":\"swing\"") && test::contains(trace, "predicted_us")
               ? ""
               : trace;
  };
  test::check_ranks(4, {.device = test::shm_device(), .topology = file}, body);
  const std::vector<std::string> refused =
      test::run_ranks(1, {.device = test::shm_device(), .topology = file},
                      [](Communicator&) -> std::string { return ""; });
  CHECK(test::contains(refused[0], "4 chips, there are 1 ranks"));
  std::remove(file.c_str());
}

}  // namespace
}  // namespace weft::collective
