// SPDX-License-Identifier: BSD-3-Clause
// Swing all-reduce for rings and tori of powers of two: as many bytes as halving and doubling, with
// partners at distances 1, 1, 3, 5, 11, .. on alternating sides, so that fewer messages share a
// link. Steps alternate between dimensions; one part of the vector starts with each dimension in
// each direction, and no two parts use the same link in the same step.
// After De Sensi, Bonato, Saam, Hoefler (2024), "Swing: short-cutting rings for higher bandwidth
// allreduce".
#include <bit>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/butterfly.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

using Dimensions = std::vector<Dimension>;

// A step of a part: its dimension, and the number of the step in that dimension.
struct DimensionStep {
  size_t dimension = 0;
  uint32_t step = 0;
};

std::vector<DimensionStep> interleave_dimensions(const Dimensions& dimensions, size_t first) {
  std::vector<DimensionStep> dimension_steps;
  uint32_t longest = 0;
  for (const Dimension& d : dimensions) longest = std::max(longest, d.size);
  for (uint32_t step = 0; (1U << step) < longest; ++step)
    for (size_t i = 0; i < dimensions.size(); ++i) {
      const size_t d = (first + i) % dimensions.size();
      if ((1U << step) < dimensions[d].size) dimension_steps.push_back({d, step});
    }
  return dimension_steps;
}

Butterfly make_swing(const Dimensions& dimensions, uint32_t ranks, size_t first, bool mirrored) {
  const std::vector<DimensionStep> dimension_steps = interleave_dimensions(dimensions, first);
  return {ranks, [dimensions, dimension_steps, mirrored](uint32_t rank, uint32_t step) {
            WEFT_DCHECK(step < dimension_steps.size());
            const DimensionStep& dimension_step = dimension_steps[step];
            uint32_t stride = 1;
            for (size_t d = dimension_step.dimension + 1; d < dimensions.size(); ++d)
              stride *= dimensions[d].size;
            const uint32_t size = dimensions[dimension_step.dimension].size,
                           place = rank / stride % size;
            const uint32_t partner_place =
                negabinary_partner(place, dimension_step.step, size, mirrored);
            return rank + (partner_place - place) * stride;  // unsigned: wraps back
          }};
}

// A part of the vector and its butterfly. Blocks are ordered as rank 0 reaches their owners, so
// that blocks of one message are adjacent.
struct Part {
  Butterfly swing;
  Range whole;
  std::vector<uint32_t> places;  // of the ranks' blocks

  Part(Butterfly butterfly, Range range)
      : swing(std::move(butterfly)), whole(range), places(swing.ranks) {
    const std::vector<uint32_t> order = swing.reach(0, 0);
    WEFT_DCHECK(order.size() == swing.ranks);  // every rank is reached once
    for (uint32_t i = 0; i < swing.ranks; ++i) places[order[i]] = i;
  }
  Range operator()(uint32_t rank) const { return block(whole, places[rank], swing.ranks); }
};

std::vector<Part> make_parts(const Shape& shape) {
  Dimensions dimensions = shape.dimensions;
  const bool flat = dimensions.empty();
  if (flat) dimensions = {{.size = shape.ranks}};
  const uint32_t d = static_cast<uint32_t>(dimensions.size()), count = flat ? 1 : 2 * d;
  std::vector<Part> parts;
  for (uint32_t i = 0; i < count; ++i)
    parts.emplace_back(make_swing(dimensions, shape.ranks, i % d, i >= d),
                       block(input(0, shape.count), i, count));
  return parts;
}

}  // namespace

static void swing_all_reduce(Builder& b) {
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  const std::vector<Part> parts = make_parts(b.shape());
  const uint32_t steps = parts[0].swing.steps();
  // Step by step over all parts: two parts may have the same partner in different steps, and puts
  // to one peer keep their order.
  for (uint32_t step = 0; step < steps; ++step)
    for (const Part& part : parts) butterfly_scatter(b, part.swing, step, part);
  for (const Part& part : parts) {
    const Range own = part(b.rank());
    b.finish(work(own.offset, own.count), output(own.offset, own.count));
  }
  for (uint32_t step = steps; step-- > 0;)
    for (const Part& part : parts) butterfly_gather(b, part.swing, step, part);
}

constexpr Algorithm kAlgorithms[] = {
    {"swing", Collective::all_reduce, swing_all_reduce, {.power_of_two = true}, 140},
};
WEFT_ALGORITHMS(swing, kAlgorithms);

}  // namespace weft::collective
