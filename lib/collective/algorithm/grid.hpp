// SPDX-License-Identifier: BSD-3-Clause
// Ranks on a grid (a torus, or racks, trays and chips), and a part of a vector that is
// reduce-scattered along one dimension after the other, then gathered back.
#pragma once

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

using Dimensions = std::vector<Dimension>;

// This rank's place in the grid; the last dimension runs fastest.
struct Grid {
  const Dimensions& dimensions;
  uint32_t rank;

  uint32_t stride(size_t d) const {
    uint32_t product = 1;
    for (size_t i = d + 1; i < dimensions.size(); ++i) product *= dimensions[i].size;
    return product;
  }
  uint32_t place(size_t d) const { return rank / stride(d) % dimensions[d].size; }
  uint32_t at(size_t d, uint32_t place_there) const {
    return rank + (place_there - place(d)) * stride(d);  // unsigned: wraps back
  }
};

// What a part is on its way through the dimensions.
struct GridPart {
  std::vector<size_t> order = {};  // of dimensions
  bool reverse = false;            // the direction in rings
  Range range;                     // of elements: less after each scattering
  std::vector<Range> outer = {};   // what it was before
  Space space = Space::input;      // of the contribution
};

bool has_rings(const Dimensions& dimensions);

// A part for each dimension to begin with, sized so that all dimensions are busy all the time, and
// in dimensions that are rings a part for each direction.
std::vector<GridPart> make_grid_parts(const Dimensions& dimensions, Range whole);

inline Range in_space(Range range, Space space) { return {space, range.offset, range.count}; }

// Scatters the part along one dimension: of its k blocks this rank keeps the one of its place. In a
// ring a step at a time to the neighbour, else at once.
void scatter_along(Builder& b, const Grid& grid, size_t d, GridPart& part);
// The way back of the last scattering: every rank of the line gets all blocks.
void gather_along(Builder& b, const Grid& grid, size_t d, GridPart& part);

}  // namespace weft::collective
