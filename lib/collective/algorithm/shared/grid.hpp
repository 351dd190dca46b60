// SPDX-License-Identifier: BSD-3-Clause
// Ranks on a grid (a torus, or racks, trays and chips), and parts of a vector that are
// reduce-scattered along one dimension after the other, then all-gathered in reverse order.
#pragma once

#include "lib/base/check.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

using Dimensions = std::vector<Dimension>;

// This rank's place in the grid; the last dimension runs fastest.
struct Grid {
  const Dimensions& dimensions;
  uint32_t rank;

  uint32_t stride(size_t d) const {
    WEFT_DCHECK(d < dimensions.size());
    uint32_t product = 1;
    for (size_t i = d + 1; i < dimensions.size(); ++i) product *= dimensions[i].size;
    return product;
  }
  uint32_t place(size_t d) const { return rank / stride(d) % dimensions[d].size; }
  uint32_t at(size_t d, uint32_t place_there) const {
    WEFT_DCHECK(place_there < dimensions[d].size);
    return rank + (place_there - place(d)) * stride(d);  // unsigned: wraps back
  }
};

// The state of a part between dimensions.
struct GridPart {
  std::vector<size_t> order = {};     // dimensions in the order of their reduce-scatter
  bool reverse = false;               // the direction in rings
  Range range;                        // this rank's elements: fewer after each reduce-scatter
  std::vector<Range> enclosing = {};  // `range` before each reduce-scatter
  Space space = Space::input;         // that holds the partial sum
};

bool has_rings(const Dimensions& dimensions);

// One part per dimension to start with, sized so that all dimensions are always busy; if there are
// rings, one part per direction.
std::vector<GridPart> make_grid_parts(const Dimensions& dimensions, Range whole);

inline Range in_space(Range range, Space space) { return {space, range.offset, range.count}; }

// Reduce-scatters the part along dimension d: of its k blocks this rank keeps the block of its
// place. In a ring in k - 1 steps between neighbours, otherwise in one step.
void reduce_scatter_dimension(Builder& b, const Grid& grid, size_t d, GridPart& part);
// Reverses the last reduce-scatter: every rank of the line gets all blocks.
void all_gather_dimension(Builder& b, const Grid& grid, size_t d, GridPart& part);

}  // namespace weft::collective
