// SPDX-License-Identifier: BSD-3-Clause
// Recipes: an equal call finds its cached recipe, any other call does not.
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/run/recipe.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

std::byte buffers[4];

RecipeBook::Key usual() {
  return {.call = {.count = 3, .root = 1, .collective = Collective::reduce, .type = DataType::fp32},
          .traffic_class = 2,
          .input = buffers,
          .output = buffers + 1,
          .limit = Duration::from_s(1),
          .wanted = {}};
}

Recipe recipe_for(const RecipeBook::Key& key, const Algorithm& algorithm) {
  Recipe recipe{.call = key.call,
                .plan = std::make_shared<Plan>(),
                .arithmetic = {},
                .input = static_cast<std::byte*>(const_cast<void*>(key.input)),
                .output = static_cast<std::byte*>(const_cast<void*>(key.output)),
                .limit = key.limit,
                .algorithm = &algorithm,
                .predicted = {}};
  recipe.call.sequence = 17;
  recipe.call.traffic_class = static_cast<uint8_t>(key.traffic_class);
  return recipe;
}

TEST_CASE("a recipe is found by an equal call only") {
  const Algorithm& algorithm = algorithms().front();
  RecipeBook book;
  CHECK(book.find(usual()) == nullptr);
  book.keep(usual(), recipe_for(usual(), algorithm));
  REQUIRE(book.find(usual()) != nullptr);
  CHECK(book.find(usual())->recipe.algorithm == &algorithm);

  const auto change = GENERATE(range(0, 11));
  RecipeBook::Key other = usual();
  if (change == 0) other.call.count = 4;
  if (change == 1) other.call.root = 0;
  if (change == 2) other.call.collective = Collective::broadcast;
  if (change == 3) other.call.type = DataType::int32;
  if (change == 4) other.call.op = ReduceOp::max;
  if (change == 5) other.traffic_class = 1;
  if (change == 6) other.traffic_class = 258;  // 2 in eight bits
  if (change == 7) other.input = buffers + 2;
  if (change == 8) other.output = buffers + 3;
  if (change == 9) other.limit = Duration::from_s(2);
  if (change == 10) other.wanted = algorithm.name;
  CAPTURE(change);
  CHECK(book.find(other) == nullptr);
}

TEST_CASE("a recipe with an explicit algorithm is found by that name only") {
  const Algorithm& algorithm = algorithms().front();
  RecipeBook::Key named = usual();
  named.wanted = algorithm.name;
  RecipeBook book;
  book.keep(named, recipe_for(named, algorithm));
  CHECK(book.find(named) != nullptr);
  CHECK(book.find(usual()) == nullptr);
  named.wanted = "another";
  CHECK(book.find(named) == nullptr);
}

TEST_CASE("recipes are evicted oldest first, and all of them when choices change") {
  RecipeBook book;
  const auto nth = [](uint64_t n) {
    RecipeBook::Key key = usual();
    key.call.count = n;
    return key;
  };
  constexpr uint64_t kMany = 100;
  for (uint64_t n = 0; n < kMany; ++n) book.keep(nth(n), recipe_for(nth(n), algorithms().front()));
  CHECK(book.find(nth(kMany - 1)) != nullptr);
  CHECK(book.find(nth(kMany - 2)) != nullptr);
  CHECK(book.find(nth(0)) == nullptr);
  book.clear();
  CHECK(book.find(nth(kMany - 1)) == nullptr);
}

TEST_CASE("calls with and without reproducible bits have separate plans") {
  const Algorithm& direct = **find_algorithm("direct", Collective::all_reduce, 4);
  Shape shape{.ranks = 4, .count = 64};
  PlanCache plans;
  const std::shared_ptr<const Plan> run = plans.find(direct, shape, 1);
  shape.any_order = true;
  const std::shared_ptr<const Plan> fast = plans.find(direct, shape, 1);
  CHECK(fast != run);
  CHECK(fast->program.dependencies != run->program.dependencies);
  CHECK(plans.find(direct, shape, 1) == fast);
}

}  // namespace
}  // namespace weft::collective
