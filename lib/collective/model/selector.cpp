// SPDX-License-Identifier: BSD-3-Clause
// The table of predicted times, filled on demand.
#include "lib/collective/model/selector.hpp"

#include <bit>

#include "lib/base/check.hpp"
#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/plan/choose.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kGridBits = 2;  // table sizes are powers of four

uint64_t grid_count(uint32_t exponent) { return uint64_t{1} << (kGridBits * exponent); }

bool fits(const Algorithm& algorithm, const CostQuery& question, uint32_t ranks) {
  return is_candidate(algorithm, question.collective, ranks) &&
         (!question.rank_order || adds_in_rank_order(algorithm));
}

}  // namespace

double model_seconds(const Algorithm& algorithm, const CostQuery& question,
                     const Topology& topology, Routes& routes) {
  Shape shape{.collective = question.collective,
              .ranks = topology.chips,
              .count = question.count,
              .exact = question.exact,
              .dimensions = topology.dimensions};
  shape.piece = model_piece(algorithm, shape.count);
  return predict(algorithm, shape, question.element, question.accumulator, topology, routes)
      .seconds;
}

double Selector::grid_seconds(const Algorithm& algorithm, CostQuery question, uint32_t exponent) {
  const Key key{&algorithm, exponent, question.element, question.accumulator, question.exact};
  const auto entry = grid_seconds_.find(key);
  if (entry != grid_seconds_.end()) return entry->second;
  WEFT_DCHECK(exponent < 64 / kGridBits);
  question.count = grid_count(exponent);
  return grid_seconds_[key] = model_seconds(algorithm, question, topology_, routes_);
}

double Selector::seconds(const Algorithm& algorithm, const CostQuery& question) {
  const uint64_t count = std::max<uint64_t>(question.count, 1);
  const uint32_t below = static_cast<uint32_t>(std::bit_width(count) - 1) / kGridBits;
  const double low = grid_seconds(algorithm, question, below);
  if (count == grid_count(below)) return low;
  const double high = grid_seconds(algorithm, question, below + 1);
  WEFT_DCHECK(grid_count(below) <= count && count < grid_count(below + 1));
  const double part = static_cast<double>(count - grid_count(below)) /
                      static_cast<double>(grid_count(below + 1) - grid_count(below));
  return low + part * (high - low);
}

double Selector::corrected_seconds(const Algorithm& algorithm, const CostQuery& question) {
  const size_t row = static_cast<size_t>(&algorithm - algorithms().data());
  WEFT_DCHECK(row < algorithms().size());
  const double bytes = static_cast<double>(question.count) * question.element;
  return seconds(algorithm, question) * correction_.factor(row, static_cast<uint64_t>(bytes));
}

Choice Selector::choose(const CostQuery& question) {
  Choice best;
  for (const Algorithm& algorithm : algorithms()) {
    if (!fits(algorithm, question, topology_.chips)) continue;
    const double time = corrected_seconds(algorithm, question);
    WEFT_DCHECK(time >= 0);
    if (best.algorithm == nullptr || time < best.seconds) best = {&algorithm, time};
  }
  return best;
}

}  // namespace weft::collective
