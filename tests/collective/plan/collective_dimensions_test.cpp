// SPDX-License-Identifier: BSD-3-Clause
// Schedules over dimensions: verified on random grids, in one and in several waves, and executed
// between ranks whose network has two dimensions, with every element compared.
// ctest: realtime
#include <rapidcheck.h>

#include <fstream>

#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::collective {
namespace {

std::string describe(std::string_view algorithm, const Shape& shape) {
  std::string text(algorithm);
  for (const Dimension& d : shape.dimensions)
    text += (&d == shape.dimensions.data() ? " of " : " x ") + std::to_string(d.size) +
            (d.ring ? " ring at " : " at ") + std::to_string(d.rate);
  return text + ", count " + std::to_string(shape.count) + (shape.in_place ? ", in place" : "") +
         (shape.exact ? "" : ", wide") + (shape.average ? ", average" : "") +
         (shape.any_order ? ", in any order" : "") + ", piece " + std::to_string(shape.piece) +
         ", wave " + std::to_string(shape.wave) + ": ";
}

// The algorithms that use the arrangement of ranks.
constexpr std::string_view kOverDimensions[] = {"bucket", "hierarchical", "swing"};

TEST_CASE("schedules over dimensions verify on random grids, in one and in several waves") {
  CHECK(rc::check("schedules over dimensions verify", [] {
    Shape shape{.count = *rc::gen::inRange<uint64_t>(0, 200),
                .in_place = *rc::gen::arbitrary<bool>(),
                .exact = *rc::gen::arbitrary<bool>(),
                .average = *rc::gen::arbitrary<bool>(),
                .any_order = *rc::gen::arbitrary<bool>(),
                .piece = *rc::gen::inRange<uint64_t>(0, 12),
                .wave = *rc::gen::inRange<uint64_t>(0, 4)};
    const uint32_t dimensions = *rc::gen::inRange<uint32_t>(1, 4);
    for (uint32_t i = 0; i < dimensions; ++i) {
      shape.dimensions.push_back({.size = *rc::gen::inRange<uint32_t>(1, 5),
                                  .rate = static_cast<double>(*rc::gen::inRange(1, 9)),
                                  .ring = *rc::gen::arbitrary<bool>()});
      shape.ranks *= shape.dimensions.back().size;
    }
    for (const std::string_view name : kOverDimensions) {
      const Result<const Algorithm*> algorithm =
          find_algorithm(name, Collective::all_reduce, shape.ranks);
      if (!algorithm) continue;  // Swing is for powers of two
      const Result<void> verified = verify(shape, programs_of(**algorithm, shape));
      RC_ASSERT((verified ? "" : describe(name, shape) + verified.error().message) == "");
    }
  }));
}

TEST_CASE("Shape::wave is the minimum size of a wave") {
  for (const std::string_view name : {"bucket", "hierarchical"}) {
    Shape shape{.ranks = 6, .count = 200, .dimensions = {{2, 1, false}, {3, 4, false}}};
    const auto steps = [&] {
      return program_of(**find_algorithm(name, Collective::all_reduce, 6), shape, 1).steps.size();
    };
    const size_t one_wave = steps();
    shape.wave = 1;
    CHECK(steps() >= 3 * one_wave);
    shape.wave = 0;
    shape.count = uint64_t{1} << 20;
    CHECK(steps() >= 3 * one_wave);
  }
}

// ---- execution ----

constexpr std::string_view kTorus = R"(
link_latency_us = 1
[torus]
names = ["y", "x"]
sizes = [2, 4]
gigabytes_per_s = [1, 3]
)";
constexpr std::string_view kRings = R"(
link_latency_us = 1
[torus]
names = ["x"]
sizes = [4]
gigabytes_per_s = [3]
[rails]
domains = 2
planes = 1
gigabytes_per_s = 1
link_latency_us = 5
)";
constexpr uint32_t kRanks = 8;

float contribution(uint32_t rank, size_t i) {  // sums of eight are exact
  return static_cast<float>((i * 7919 + rank * 104729) % 1000) - 500;
}

std::vector<float> input_of(uint32_t rank, size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = contribution(rank, i);
  return all;
}

// The first element that is not the sum of all contributions, or "".
std::string compare(const std::vector<float>& sums, size_t first) {
  for (size_t i = 0; i < sums.size(); ++i) {
    float wanted = 0;
    for (uint32_t rank = 0; rank < kRanks; ++rank) wanted += contribution(rank, first + i);
    if (sums[i] != wanted) return "element " + std::to_string(first + i) + " is wrong";
  }
  return "";
}

std::string all_reduces(Communicator& group, std::string_view algorithm, size_t count) {
  const std::vector<float> mine = input_of(group.rank(), count);
  std::vector<float> sums(count);
  Operation sum = group.all_reduce(mine.data(), sums.data(), count, DataType::fp32, ReduceOp::sum,
                                   {.algorithm = algorithm});
  if (const Result<void> done = sum.wait(); !done) return done.error().message;
  if (sum.predicted().ps <= 0) return "no network was asked";
  if (const std::string wrong = compare(sums, 0); !wrong.empty()) return wrong;
  std::vector<float> in_place = input_of(group.rank(), count);
  const Result<void> done = group
                                .all_reduce(in_place.data(), in_place.data(), count, DataType::fp32,
                                            ReduceOp::sum, {.algorithm = algorithm})
                                .wait();
  return done ? compare(in_place, 0) : done.error().message;
}

std::string reduce_scatters(Communicator& group, size_t count) {
  const std::vector<float> mine = input_of(group.rank(), count * kRanks);
  std::vector<float> sums(count);
  const Result<void> done =
      group.reduce_scatter(mine.data(), sums.data(), count, DataType::fp32).wait();
  return done ? compare(sums, group.rank() * count) : done.error().message;
}

TEST_CASE("ranks of a network with two dimensions reduce correctly, in one and in several waves") {
  const std::string_view network = GENERATE(kTorus, kRings);
  const Numerics numerics = GENERATE(Numerics::run, Numerics::fast);
  CAPTURE(network, name(numerics));
  const std::string file = "/tmp/weft-network-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << network;
  test::check_ranks(
      kRanks, {.device = test::shm_device(), .numerics = numerics, .topology = file},
      [&](Communicator& group) -> std::string {
        for (const size_t count : {size_t{1}, size_t{1001}, size_t{530'001}}) {
          for (const std::string_view algorithm : {"bucket", "hierarchical", "swing", ""})
            if (const std::string wrong = all_reduces(group, algorithm, count); !wrong.empty())
              return "all_reduce of " + std::to_string(count) + " by '" + std::string(algorithm) +
                     "': " + wrong;
          if (const std::string wrong = reduce_scatters(group, count / 8 + 1); !wrong.empty())
            return "reduce_scatter: " + wrong;
        }
        return "";
      });
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace weft::collective
