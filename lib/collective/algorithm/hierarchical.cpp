// SPDX-License-Identifier: BSD-3-Clause
// Hierarchical all-reduce: the first dimension is the outermost and slowest (domains, racks). Each
// rank's vector is reduce-scattered inside its domain, dimension by dimension (in parts, as
// bucket.cpp), so that the ranks of the same place in all domains have to reduce a small part each;
// these do it by recursive halving and doubling if they are a power of two, else directly; then the
// parts are gathered back. Fewest bytes between domains, and few steps.
#include <bit>

#include "lib/collective/algorithm.hpp"
#include "lib/collective/algorithm/grid.hpp"
#include "lib/collective/algorithm/parts.hpp"

namespace weft::collective {
namespace {

// Half of the part goes to the rank that is as far away as it is large, then a quarter to the next.
void halve_along(Builder& b, const Grid& grid, size_t d, GridPart& part) {
  const uint32_t k = grid.dimensions[d].size, place = grid.place(d);
  b.go_along(static_cast<uint8_t>(d));
  for (uint32_t mask = k / 2; mask > 0; mask /= 2) {
    const uint32_t peer = grid.at(d, place ^ mask);
    const uint32_t upper = (place & mask) != 0;
    const Range whole = in_space(part.range, part.space);
    const Range kept = block(whole, upper, 2);
    b.put(peer, block(whole, 1 - upper, 2));
    b.receive_reduce(peer, kept, in_space(kept, Space::work), part.space);
    part.outer.push_back(part.range);
    part.range = kept;
    part.space = Space::work;
  }
}

void double_along(Builder& b, const Grid& grid, size_t d, GridPart& part) {
  const uint32_t k = grid.dimensions[d].size, place = grid.place(d);
  b.go_along(static_cast<uint8_t>(d));
  for (uint32_t mask = 1; mask < k; mask *= 2) {
    const uint32_t peer = grid.at(d, place ^ mask);
    const uint32_t upper = (place & mask) != 0;
    const Range whole = in_space(part.outer.back(), Space::output);
    part.outer.pop_back();
    b.put(peer, block(whole, upper, 2));
    b.receive(peer, block(whole, 1 - upper, 2));
    part.range = whole;
  }
}

}  // namespace

void hierarchical_all_reduce(Builder& b) {
  Dimensions dimensions = b.shape().dimensions;
  if (dimensions.empty()) dimensions = {{.size = b.shape().ranks, .ring = false}};
  dimensions[0].ring = false;
  const Grid grid{dimensions, b.rank()};
  b.work_on_output();
  if (b.shape().ranks == 1) return alone(b);
  const bool halves = std::has_single_bit(dimensions[0].size);
  const Range whole = work(0, b.shape().count);
  const Dimensions inside(dimensions.begin() + 1, dimensions.end());
  std::vector<GridPart> parts = {{.range = whole}};
  if (!inside.empty()) parts = make_grid_parts(inside, whole);
  const size_t n = inside.size();
  for (size_t phase = 0; phase < n; ++phase)
    for (GridPart& part : parts) scatter_along(b, grid, part.order[phase] + 1, part);
  for (GridPart& part : parts) {
    halves ? halve_along(b, grid, 0, part) : scatter_along(b, grid, 0, part);
    b.finish(in_space(part.range, Space::work), in_space(part.range, Space::output));
    halves ? double_along(b, grid, 0, part) : gather_along(b, grid, 0, part);
  }
  for (size_t phase = n; phase-- > 0;)
    for (GridPart& part : parts) gather_along(b, grid, part.order[phase] + 1, part);
}

}  // namespace weft::collective
