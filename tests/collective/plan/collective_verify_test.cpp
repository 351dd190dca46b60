// SPDX-License-Identifier: BSD-3-Clause
// verify() proves every algorithm's schedule over many shapes.
#include <rapidcheck.h>

#include <algorithm>
#include <bit>

#include "lib/base/random.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/verify.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

std::string describe_shape(const Blocks& blocks) {
  std::string text;
  for (const uint64_t count : blocks.counts)
    text += (text.empty() ? ", " : " ") + std::to_string(count);
  if (blocks.parts != 1)
    text += ", " + std::to_string(blocks.parts) + " parts at " + std::to_string(blocks.stride);
  return text;
}

std::string describe_shape(const Algorithm& algorithm, const Shape& shape) {
  return std::string(algorithm.name) + " " + std::string(name(shape.collective)) + " of " +
         std::to_string(shape.ranks) + " ranks, count " + std::to_string(shape.count) + ", root " +
         std::to_string(shape.root) + (shape.in_place ? ", in place" : "") +
         (shape.exact ? "" : ", wide") + (shape.average ? ", average" : "") +
         (shape.any_order ? ", in any order" : "") + ", piece " + std::to_string(shape.piece) +
         describe_shape(shape.blocks);
}

// "" or the error.
std::string proof(const Algorithm& algorithm, const Shape& shape) {
  const Result<void> verified = verify(shape, programs_of(algorithm, shape));
  return verified ? "" : describe_shape(algorithm, shape) + ": " + verified.error().message;
}

// Blocks of 0 to `most` elements, many of them empty.
Blocks make_blocks(Collective collective, uint32_t ranks, uint32_t parts, uint64_t most,
                   uint64_t seed) {
  Blocks blocks;
  if (!has_blocks(collective)) return blocks;
  const bool for_pairs =
      collective != Collective::all_gather_v && collective != Collective::reduce_scatter_v;
  if (collective == Collective::dispatch || collective == Collective::combine) blocks.parts = parts;
  base::Random random(seed);
  const size_t entries = for_pairs ? size_t{ranks} * ranks * blocks.parts : ranks;
  for (size_t i = 0; i < entries; ++i)
    blocks.counts.push_back(random.below(3) == 0 ? 0 : random.below(most + 1));
  if (blocks.parts > 1) blocks.stride = ranks * most + 1;  // there are gaps
  return blocks;
}

// Ranks in racks, and rows that are equal to others for the same rack. `kinds` of them there are.
void put_in_racks(Shape& shape, uint32_t racks, uint64_t width, uint64_t kinds, uint64_t seed) {
  Blocks& blocks = shape.blocks;
  base::Random random(seed);
  blocks.racks = racks;
  blocks.width = width;
  blocks.stride *= width;
  for (uint64_t& count : blocks.counts) count *= width;
  for (uint32_t from = 0; from < shape.ranks; ++from) {
    std::vector<uint32_t>& same = blocks.first_equal_row.emplace_back();
    for (uint32_t to = 0; to < shape.ranks; ++to) {
      static std::vector<uint32_t> first;  // by kind
      if (to % (shape.ranks / racks) == 0) first.assign(kinds, UINT32_MAX);
      for (uint32_t part = 0; part < blocks.parts; ++part)
        for (uint64_t row = send_block(shape, from, to, part).count / width; row > 0; --row) {
          uint32_t& known = first[random.below(kinds)];
          if (known == UINT32_MAX) known = static_cast<uint32_t>(same.size());
          same.push_back(known);
        }
    }
  }
}

// In-place needs equal blocks.
bool may_be_in_place(Collective collective) {
  return !has_blocks(collective) || gathers(collective) || scatters(collective);
}

bool runs_with(const Algorithm& algorithm, uint32_t ranks) {
  return !algorithm.traits.power_of_two || std::has_single_bit(ranks);
}

TEST_CASE(
    "every algorithm verifies for 1 to 17 ranks: in place, wide, in any order, and not, "
    "threat:A24") {
  for (const Algorithm& algorithm : algorithms())
    for (uint32_t ranks = 1; ranks <= 17; ++ranks)
      for (const uint64_t count : {0, 1, 7, 18})
        for (int variant = 0; variant < 12; ++variant) {
          if (!runs_with(algorithm, ranks)) continue;
          const bool reduction = reduces(algorithm.collective);
          if (!reduction && variant >= 2) continue;
          if (!may_be_in_place(algorithm.collective) && variant == 1) continue;
          const Shape shape{.collective = algorithm.collective,
                            .ranks = ranks,
                            .root = ranks / 2,
                            .count = count,
                            .in_place = (variant & 1) != 0,
                            .exact = (variant & 2) == 0,
                            .average = (variant & 4) != 0,
                            .any_order = (variant & 8) != 0,
                            .blocks = make_blocks(algorithm.collective, ranks, 3, count, ranks),
                            .piece = 5};
          const std::string wrong = proof(algorithm, shape);
          if (!wrong.empty()) FAIL(wrong);
        }
}

TEST_CASE("every algorithm verifies for random shapes") {
  CHECK(rc::check("schedules verify", [] {
    const Algorithm& algorithm = algorithms()[*rc::gen::inRange<size_t>(0, algorithms().size())];
    uint32_t ranks = *rc::gen::inRange<uint32_t>(1, 18);
    if (algorithm.traits.power_of_two) ranks = std::bit_floor(ranks);
    const bool reduction = reduces(algorithm.collective);
    const Shape shape{
        .collective = algorithm.collective,
        .ranks = ranks,
        .root = *rc::gen::inRange<uint32_t>(0, ranks),
        .count = *rc::gen::inRange<uint64_t>(0, 40),
        .in_place = may_be_in_place(algorithm.collective) && *rc::gen::arbitrary<bool>(),
        .exact = !reduction || *rc::gen::arbitrary<bool>(),
        .average = reduction && *rc::gen::arbitrary<bool>(),
        .any_order = reduction && *rc::gen::arbitrary<bool>(),
        .blocks = make_blocks(algorithm.collective, ranks, *rc::gen::inRange<uint32_t>(1, 5),
                              *rc::gen::inRange<uint64_t>(0, 20), *rc::gen::arbitrary<uint64_t>()),
        .piece = *rc::gen::inRange<uint64_t>(0, 12)};
    RC_ASSERT(proof(algorithm, shape) == "");
  }));
}

TEST_CASE("ring, halving and direct all-reduce send the minimum number of elements") {
  for (const std::string_view algorithm : {"ring", "direct", "halving_doubling"})
    for (const uint32_t ranks : {2U, 4U, 8U, 16U}) {
      const Shape shape{.ranks = ranks, .count = 16 * 16, .piece = 0};
      const Algorithm& found = **find_algorithm(algorithm, Collective::all_reduce, ranks);
      for (const Program& program : programs_of(found, shape)) {
        uint64_t sent = 0;
        for (const Step& step : program.steps)
          if (step.kind == StepKind::put) sent += step.source.count;
        CHECK(sent == 2 * shape.count * (ranks - 1) / ranks);
      }
    }
}

TEST_CASE("every dispatch verifies for ranks in racks with equal rows") {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::dispatch) continue;
    for (const auto& [ranks, racks] : {std::pair{1, 1}, {4, 1}, {4, 2}, {4, 4}, {6, 3}, {16, 2}})
      for (const uint64_t kinds : {1, 3, 40})
        for (const uint64_t width : {1, 3}) {
          const uint32_t n = static_cast<uint32_t>(ranks);
          const uint64_t seed = n * kinds + width;
          Shape shape{.collective = Collective::dispatch,
                      .ranks = n,
                      .blocks = make_blocks(Collective::dispatch, n, 3, 5, seed),
                      .piece = 2 * width};
          put_in_racks(shape, static_cast<uint32_t>(racks), width, kinds, seed);
          const std::string wrong = proof(algorithm, shape);
          if (!wrong.empty()) FAIL(wrong << ", " << racks << " racks, " << kinds << " kinds");
        }
  }
}

// The sum over all elements of the distance that they are sent, on a ring of the ranks.
uint64_t travelled(Collective collective, std::string_view algorithm, uint32_t ranks) {
  const Shape shape{.collective = collective, .ranks = ranks, .count = 1};
  const std::vector<Program> programs =
      programs_of(**find_algorithm(algorithm, collective, ranks), shape);
  uint64_t distance = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (const Step& step : programs[rank].steps) {
      if (step.kind != StepKind::put) continue;
      const uint32_t ahead = (step.peer + ranks - rank) % ranks;
      distance += std::min(ahead, ranks - ahead) * step.source.count;
    }
  return distance;
}

TEST_CASE("Bine and PAT send to nearer ranks than halving and Bruck") {
  for (const uint32_t ranks : {16U, 64U}) {
    CHECK(travelled(Collective::broadcast, "bine", ranks) * 10 <=
          travelled(Collective::broadcast, "binomial", ranks) * 8);
    CHECK(travelled(Collective::all_gather, "bine", ranks) <
          travelled(Collective::all_gather, "doubling", ranks));
    CHECK(travelled(Collective::all_gather, "pat", ranks) * 2 <
          travelled(Collective::all_gather, "bruck", ranks));
  }
}

TEST_CASE("PAT sends small blocks together and large ones one by one") {
  const auto program_for = [](uint64_t piece) {
    const Shape shape{
        .collective = Collective::all_gather, .ranks = 16, .count = 10, .piece = piece};
    return program_of(**find_algorithm("pat", Collective::all_gather, 16), shape, 3);
  };
  const auto puts = [&](uint64_t piece) {
    const Program program = program_for(piece);
    return std::count_if(program.steps.begin(), program.steps.end(),
                         [](const Step& step) { return step.kind == StepKind::put; });
  };
  CHECK(puts(0) == 4);
  CHECK(puts(1000) == 4);
  CHECK(puts(20) == 1 + 1 + 2 + 4);
  CHECK(puts(10) == 15);
  CHECK(program_for(10).work == 0);  // without a copy
}

TEST_CASE("unknown algorithms and unsupported numbers of ranks are refused by name") {
  const Result<const Algorithm*> unknown = find_algorithm("rign", Collective::all_to_all, 4);
  REQUIRE(!unknown);
  CHECK(unknown.error().code == Code::not_found);
  CHECK(unknown.error().message.find("pairwise, bruck, direct") != std::string::npos);
  const Result<const Algorithm*> odd = find_algorithm("halving", Collective::reduce_scatter, 6);
  REQUIRE(!odd);
  CHECK(odd.error().code == Code::not_supported);
}

}  // namespace
}  // namespace weft::collective
