// SPDX-License-Identifier: BSD-3-Clause
// Plans of MSCCL made from our schedules, read back and broken at random: what is not refused must
// be right in every order in which MSCCL may run it.
#include <cstdlib>

#include "lib/base/random.hpp"
#include "lib/collective/msccl/export.hpp"
#include "lib/collective/msccl/program.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "tests/collective/msccl/msccl_play.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scale.hpp"

namespace weft::collective {
namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::reduce_scatter,
                                       Collective::all_gather, Collective::broadcast,
                                       Collective::reduce,     Collective::all_to_all};

// A plan of each algorithm that there is for so many ranks.
std::vector<MscclPlan> plans_for(uint32_t ranks, uint64_t count) {
  std::vector<MscclPlan> plans;
  for (const Collective collective : kCollectives)
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective != collective || algorithm.source != nullptr) continue;
      if (!find_algorithm(algorithm.name, collective, ranks)) continue;
      for (const bool in_place : {false, true}) {
        const Shape shape{.collective = collective,
                          .ranks = ranks,
                          .root = ranks / 2,
                          .count = count,
                          .in_place = in_place && collective != Collective::all_to_all};
        Result<MscclPlan> plan =
            msccl_plan_of(std::string(algorithm.name), shape, programs_of(algorithm, shape));
        INFO(algorithm.name << " of " << name(collective) << ", " << ranks << " ranks");
        REQUIRE(plan);
        plans.push_back(*std::move(plan));
      }
    }
  return plans;
}

std::string text_of(const MscclPlan& plan) {
  return plan.name + " " + std::string(weft::name(plan.collective)) + " of " +
         std::to_string(plan.ranks.size()) + (plan.in_place ? ", in place" : "");
}

TEST_CASE("schedules of ours as plans of MSCCL are proven, and right in any order") {
  for (uint32_t ranks = 2; ranks <= 6; ++ranks)
    for (const MscclPlan& plan : plans_for(ranks, uint64_t{2} * ranks)) {
      INFO(text_of(plan));
      const Result<std::unique_ptr<MscclProgram>> made = MscclProgram::make(plan);
      if (!made) INFO(made.error().message);
      REQUIRE(made);
      for (uint64_t seed = 1; seed <= 3; ++seed)
        CHECK(MscclPlay(plan, (*made)->root(), seed).run() == "");
    }
}

// One field of one step, or two steps of a block, or one wait.
void mutate(MscclPlan& plan, base::Random& random) {
  MscclRank& rank = plan.ranks[random.below(plan.ranks.size())];
  if (rank.blocks.empty()) return;
  MscclBlock& block = rank.blocks[random.below(rank.blocks.size())];
  if (block.steps.empty()) return;
  const size_t at = random.below(block.steps.size());
  MscclStep& step = block.steps[at];
  const auto move = [&](MscclChunks& chunks) {
    if (random.below(3) == 0)
      chunks.buffer = static_cast<MscclBuffer>(random.below(3));
    else
      chunks.index = static_cast<uint32_t>(random.below(plan.chunks + 1));
  };
  switch (random.below(10)) {
    case 0:
      return move(step.source);
    case 1:
      return move(step.target);
    case 2:
      move(step.source);
      step.target = step.source;
      return;
    case 3:
      step.count = static_cast<uint32_t>(random.below(4));
      return;
    case 4:
      step.kind = static_cast<MscclKind>(random.below(9));
      return;
    case 5:
      step.after_block = step.after_step = -1;
      return;
    case 6:
      step.after_block = static_cast<int32_t>(random.below(rank.blocks.size()));
      step.after_step = static_cast<int32_t>(random.below(4));
      return;
    case 7:
      std::swap(step, block.steps[random.below(block.steps.size())]);
      return;
    case 8:
      block.steps.erase(block.steps.begin() + static_cast<ptrdiff_t>(at));
      return;
    default:
      (random.below(2) == 0 ? block.send : block.receive) =
          static_cast<int32_t>(random.below(plan.ranks.size() + 1)) - 1;
  }
}

// Each test is a seed of its own, so `seed` alone repeats it.
std::string outcome_of(const std::vector<MscclPlan>& plans, uint64_t seed, uint64_t& accepted) {
  base::Random random(seed);
  MscclPlan plan = plans[random.below(plans.size())];
  mutate(plan, random);
  const Result<std::unique_ptr<MscclProgram>> made = MscclProgram::make(plan);
  if (!made) return made.error().message.empty() ? "refused without a reason" : "";
  ++accepted;
  for (int order = 0; order < 20; ++order) {
    const std::string wrong = MscclPlay(plan, (*made)->root(), random.next()).run();
    if (!wrong.empty()) return text_of(plan) + ": " + wrong;
  }
  return "";
}

TEST_CASE("plans of MSCCL with a random change are refused, or right in any order") {
  const bool is_long = std::getenv("WEFT_TEST_LONG") != nullptr;
  std::vector<MscclPlan> plans = plans_for(3, 3);
  for (MscclPlan& plan : plans_for(4, 4)) plans.push_back(std::move(plan));
  const uint64_t first = 1, mutants = is_long ? 100'000 : test::scaled(1000);
  uint64_t accepted = 0;
  for (uint64_t seed = first; seed < first + mutants; ++seed) {
    const std::string wrong = outcome_of(plans, seed, accepted);
    INFO("outcome_of(), seed " << seed);
    REQUIRE(wrong == "");
  }
  INFO(accepted << " of " << mutants << " accepted");
  CHECK(accepted < mutants / 2);
}

}  // namespace
}  // namespace weft::collective
