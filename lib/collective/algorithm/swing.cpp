// SPDX-License-Identifier: BSD-3-Clause
// Swing all-reduce for rings and tori of powers of two: the bytes of halving and doubling, over
// partners at distances 1, 1, 3, 5, 11, .. to both sides in turn, so that messages meet on fewer
// links. Dimensions take turns; a part of the vector begins with each dimension in each direction,
// and no two parts use the same link in the same step.
// After De Sensi, Bonato, Saam, Hoefler (2024), "Swing: short-cutting rings for higher bandwidth
// allreduce".
#include <bit>

#include "lib/collective/algorithm/butterfly.hpp"
#include "lib/collective/algorithm/parts.hpp"

namespace weft::collective {
namespace {

using Dimensions = std::vector<Dimension>;

// A step of a part: in which dimension, and which step of it.
struct Turn {
  size_t dimension = 0;
  uint32_t step = 0;
};

std::vector<Turn> take_turns(const Dimensions& dimensions, size_t first) {
  std::vector<Turn> turns;
  uint32_t longest = 0;
  for (const Dimension& d : dimensions) longest = std::max(longest, d.size);
  for (uint32_t step = 0; (1U << step) < longest; ++step)
    for (size_t i = 0; i < dimensions.size(); ++i) {
      const size_t d = (first + i) % dimensions.size();
      if ((1U << step) < dimensions[d].size) turns.push_back({d, step});
    }
  return turns;
}

Butterfly make_swing(const Dimensions& dimensions, uint32_t ranks, size_t first, bool mirrored) {
  const std::vector<Turn> turns = take_turns(dimensions, first);
  return {ranks, [dimensions, turns, mirrored](uint32_t rank, uint32_t step) {
            const Turn& turn = turns[step];
            uint32_t stride = 1;
            for (size_t d = turn.dimension + 1; d < dimensions.size(); ++d)
              stride *= dimensions[d].size;
            const uint32_t size = dimensions[turn.dimension].size, place = rank / stride % size;
            const uint32_t there = negabinary_partner(place, turn.step, size, mirrored);
            return rank + (there - place) * stride;  // unsigned: wraps back
          }};
}

// A part of the vector and its butterfly. Blocks lie in the order in which rank 0 reaches their
// owners: what goes together is adjacent.
struct Part {
  Butterfly swing;
  Range whole;
  std::vector<uint32_t> places;  // of the ranks' blocks

  Part(Butterfly made, Range range) : swing(std::move(made)), whole(range), places(swing.ranks) {
    const std::vector<uint32_t> order = swing.reach(0, 0);
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

void swing_all_reduce(Builder& b) {
  b.work_on_output();
  if (b.shape().ranks == 1) return alone(b);
  const std::vector<Part> parts = make_parts(b.shape());
  const uint32_t steps = parts[0].swing.steps();
  // In the order of time over all parts: two of them may have the same partner in different steps.
  for (uint32_t step = 0; step < steps; ++step)
    for (const Part& part : parts) butterfly_scatter(b, part.swing, step, part);
  for (const Part& part : parts) {
    const Range own = part(b.rank());
    b.finish(work(own.offset, own.count), output(own.offset, own.count));
  }
  for (uint32_t step = steps; step-- > 0;)
    for (const Part& part : parts) butterfly_gather(b, part.swing, step, part);
}

}  // namespace weft::collective
