// SPDX-License-Identifier: BSD-3-Clause
// Choices of the selector compared with the best algorithm on a grid of calls and networks; and in
// a real group, which records choice, prediction and time.
// ctest: realtime
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <span>

#include "lib/collective/model/selector.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "tests/collective/run/collective_ranks.hpp"
#include "tests/support/paths.hpp"

namespace weft::collective {
namespace {

constexpr Collective kOperations[] = {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast,
                                      Collective::reduce,     Collective::all_to_all};

constexpr uint64_t kSizes[] = {48, 3'000, 40'000, 700'000, 5'000'000, 3ULL << 27};
// Of networks whose predictions take long, unless the run is long.
constexpr uint32_t kMostChips = 32;
constexpr uint64_t kFewSizes[] = {3'000, 5'000'000};

// Chips of one switch.
Topology selector_star(uint32_t chips) {
  Topology topology = make_switched_racks(
      {.racks = 1, .trays = chips, .chips_per_tray = 1, .planes = 1, .backplane = 50e9}, 1e-6);
  topology.name = "star of " + std::to_string(chips);
  return topology;
}

double best_seconds(const CostQuery& question, const Topology& topology, Routes& routes) {
  double best = 1e9;
  for (const Algorithm& algorithm : algorithms())
    if (is_candidate(algorithm, question.collective, topology.chips))
      best = std::min(best, model_seconds(algorithm, question, topology, routes));
  return best;
}

TEST_CASE("the chosen algorithm takes at most 10 % more than the best, over a grid of calls") {
  std::vector<Topology> networks = {selector_star(6), selector_star(8)};
  for (const char* name : {"trn1-torus-4x4", "trn2-torus-4x4", "trn2-ultraserver-4x4x4",
                           "trn3-nl32x2-gen1", "trn3-nl72x2-gen1"})
    networks.push_back(*read_topology(
        (test::source_root() / "scenarios/collectives" / (std::string(name) + ".toml")).string()));
  for (const Topology& network : networks) {
    Selector selector(network);
    Routes routes(network);
    const bool few = network.chips > kMostChips && std::getenv("WEFT_TEST_LONG") == nullptr;
    for (const Collective operation : kOperations)
      for (const uint64_t bytes : few ? std::span<const uint64_t>(kFewSizes) : kSizes) {
        const CostQuery question{.collective = operation,
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

TEST_CASE("on a ring of chips two rings, one in each direction, take half the time of one") {
  const Topology ring = make_torus({{"x", 8, 10e9}}, 1e-6);
  Selector selector(ring);
  for (const Collective operation : {Collective::reduce_scatter, Collective::all_gather}) {
    const CostQuery question{
        .collective = operation, .count = 1 << 21, .element = 4, .accumulator = 4};
    const Choice choice = selector.choose(question);
    CHECK(choice.algorithm->name == "two_rings");
    const double one = selector.seconds(**find_algorithm("ring", operation, 8), question);
    CHECK(choice.seconds <= 0.51 * one);
  }
}

TEST_CASE("with rank_order only algorithms that add in the order of ranks are chosen") {
  Selector selector(selector_star(8));
  for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 24}) {
    CostQuery question{.count = count, .rank_order = true};
    const std::string_view ordered = selector.choose(question).algorithm->name;
    CHECK((ordered == "direct" || ordered == "single_step"));
  }
}

TEST_CASE("a group with a topology chooses by it, and keeps prediction and time of each call") {
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

size_t row_of(std::string_view name, Collective collective) {
  return static_cast<size_t>(*find_algorithm(name, collective, 4) - algorithms().data());
}

TEST_CASE("a measured ratio applies to its algorithm and size, or the nearest size") {
  const size_t ring = row_of("ring", Collective::all_reduce);
  const size_t direct = row_of("direct", Collective::all_reduce);
  const size_t gather = row_of("ring", Collective::all_gather);
  ModelCorrection learned;
  CHECK(learned.factor(ring, 1 << 20) == 1);
  learned.record(ring, 1 << 20, 9);
  learned.record(ring, 1 << 20, 4);
  learned.record(ring, 1 << 20, 7);
  learned.record(ring, 64, 28);
  CHECK(learned.factor(ring, 1 << 20) == 1);  // not before apply()
  std::vector<int64_t> all = learned.measured();
  learned.apply(all);
  CHECK(learned.factor(ring, 1 << 20) == Approx(7));  // the median
  CHECK(learned.factor(ring, 1 << 23) == Approx(7));
  CHECK(learned.factor(ring, 8) == Approx(28));
  CHECK(learned.factor(direct, 1 << 20) == Approx(14));  // the mean of 7 and 28
  CHECK(learned.factor(gather, 1 << 20) == 1);
  learned.record(direct, 1 << 20, 2);
  all = learned.measured();
  learned.apply(all);
  CHECK(learned.factor(direct, 64) == Approx(2));
  CHECK(learned.factor(ring, 1 << 20) == Approx(7));  // kept without new measurements
  for (int call = 0; call < 100; ++call) learned.record(ring, 1 << 20, call < 60 ? 100 : 3);
  all = learned.measured();
  learned.apply(all);
  CHECK(learned.factor(ring, 1 << 20) == Approx(3));  // the last calls count
}

TEST_CASE("an algorithm that takes longer than predicted is no longer chosen") {
  Selector selector(selector_star(8));
  const CostQuery question{.count = 1 << 20, .element = 4, .accumulator = 4};
  const Choice before = selector.choose(question);
  std::vector<int64_t> ratios(selector.correction().measured().size(), 1'000'000);
  selector.correction().apply(ratios);
  CHECK(selector.choose(question).algorithm == before.algorithm);
  ModelCorrection slow;
  slow.record(static_cast<size_t>(before.algorithm - algorithms().data()), 4 << 20, 50);
  selector.correction().apply(slow.measured());
  const Choice after = selector.choose(question);
  CHECK(after.algorithm != before.algorithm);
  CHECK(after.seconds >= before.seconds);
}

TEST_CASE("all ranks apply the same correction, and predict measured times") {
  const std::string file = "/tmp/weft-learned-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "link_latency_us = 1\n[torus]\nnames = [\"x\"]\nsizes = [4]\n"
                         "gigabytes_per_s = [1]\n";
  const auto body = [&](Communicator& group) -> std::string {
    std::vector<float> data(50'000, 1.0F);
    const auto sum = [&](std::string_view algorithm) {
      Operation operation = group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32,
                                             ReduceOp::max, {.algorithm = algorithm});
      (void)operation.wait();
      return operation;
    };
    const std::string_view names[] = {"ring", "direct", "swing"};
    Duration least[] = {Duration::from_s(99), Duration::from_s(99), Duration::from_s(99)};
    for (int round = 0; round < 5; ++round)
      for (size_t i = 0; i < 3; ++i) least[i] = std::min(least[i], sum(names[i]).took());
    if (Result<void> learned = group.learn(); !learned) return learned.error().message;
    std::vector<int64_t> predicted;
    for (size_t i = 0; i < 3; ++i) {
      predicted.push_back(sum(names[i]).predicted().ns());
      // Of the rank that took longest; ratios are kept in millionths.
      if (static_cast<double>(predicted[i]) < 0.999 * static_cast<double>(least[i].ns()) - 1)
        return std::string(names[i]) + ": " + std::to_string(predicted[i]) + " ns, it took " +
               std::to_string(least[i].ns());
    }
    // The same on all ranks.
    std::vector<int64_t> most(3);
    if (Result<void> done =
            group.all_reduce(predicted.data(), most.data(), 3, DataType::int64, ReduceOp::max)
                .wait();
        !done)
      return done.error().message;
    if (most != predicted) return "another prediction than on other ranks";
    Operation chosen = sum("");
    return chosen.predicted().ns() <= *std::min_element(most.begin(), most.end())
               ? ""
               : "not the one of least expected time";
  };
  test::check_ranks(4, {.device = test::shm_device(), .topology = file}, body);
  std::remove(file.c_str());
  test::check_ranks(2, {.device = test::shm_device()}, [](Communicator& group) -> std::string {
    const Result<void> refused = group.learn();
    return !refused && refused.error().code == Code::not_supported ? "" : "it learned";
  });
}

}  // namespace
}  // namespace weft::collective
