// SPDX-License-Identifier: BSD-3-Clause
// A table of predicted times, filled as it is asked.
#include "lib/collective/model/selector.hpp"

#include <bit>

#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/plan/choose.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kGridBits = 2;  // sizes of the table are powers of four

uint64_t grid(uint32_t exponent) { return uint64_t{1} << (kGridBits * exponent); }

bool fits(const Algorithm& algorithm, const Question& question, uint32_t ranks) {
  return algorithm.collective == question.collective &&
         (!algorithm.traits.power_of_two || std::has_single_bit(ranks)) &&
         (!question.rank_order || adds_in_rank_order(algorithm));
}

}  // namespace

double model_seconds(const Algorithm& algorithm, const Question& question, const Topology& topology,
                     Routes& routes) {
  Shape shape{.collective = question.collective,
              .ranks = topology.chips,
              .count = question.count,
              .exact = question.exact,
              .dimensions = topology.dimensions};
  shape.piece = modelled_piece(algorithm, shape.count);
  return predict(algorithm, shape, question.element, question.accumulator, topology, routes)
      .seconds;
}

double Selector::at_grid(const Algorithm& algorithm, Question question, uint32_t exponent) {
  const Key key{&algorithm, exponent, question.element, question.accumulator, question.exact};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  question.count = grid(exponent);
  return known_[key] = model_seconds(algorithm, question, topology_, routes_);
}

double Selector::seconds(const Algorithm& algorithm, const Question& question) {
  const uint64_t count = std::max<uint64_t>(question.count, 1);
  const uint32_t below = static_cast<uint32_t>(std::bit_width(count) - 1) / kGridBits;
  const double low = at_grid(algorithm, question, below);
  if (count == grid(below)) return low;
  const double high = at_grid(algorithm, question, below + 1);
  const double part =
      static_cast<double>(count - grid(below)) / static_cast<double>(grid(below + 1) - grid(below));
  return low + part * (high - low);
}

double Selector::expected(const Algorithm& algorithm, const Question& question) {
  const size_t row = static_cast<size_t>(&algorithm - algorithms().data());
  const double bytes = static_cast<double>(question.count) * question.element;
  return seconds(algorithm, question) * learned_.factor(row, static_cast<uint64_t>(bytes));
}

Choice Selector::choose(const Question& question) {
  Choice best;
  for (const Algorithm& algorithm : algorithms()) {
    if (!fits(algorithm, question, topology_.chips)) continue;
    const double time = expected(algorithm, question);
    if (best.algorithm == nullptr || time < best.seconds) best = {&algorithm, time};
  }
  return best;
}

}  // namespace weft::collective
