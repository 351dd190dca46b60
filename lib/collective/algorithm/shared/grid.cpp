// SPDX-License-Identifier: BSD-3-Clause
// Sizes and orders of parts; reduce-scatter and all-gather along a dimension.
#include "lib/collective/algorithm/shared/grid.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

// In a ring a rank sends in both directions.
double capacity(const Dimension& d) { return d.ring ? 2 * d.rate : d.rate; }

// A part that starts with `first` continues with the fastest dimensions, so that slow ones carry
// less. Equal dimensions follow in cyclic order, so that parts use different ones at a time.
std::vector<size_t> order_from(const Dimensions& dimensions, size_t first) {
  WEFT_DCHECK(first < dimensions.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < dimensions.size(); ++i) order.push_back((first + i) % dimensions.size());
  std::stable_sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) {
    return capacity(dimensions[a]) > capacity(dimensions[b]);
  });
  return order;
}

// Relative sizes of the parts that start with each dimension, such that the traffic over dimension
// d (the sum over parts e of size e times the share of e that crosses d) is proportional to its
// capacity. By Gaussian elimination; negative sizes become 0.
std::vector<double> part_sizes(const Dimensions& dimensions) {
  const size_t n = dimensions.size();
  std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
  for (size_t e = 0; e < n; ++e) {
    double left = 1;
    for (const size_t d : order_from(dimensions, e)) {
      rows[d][e] = left * (dimensions[d].size - 1) / dimensions[d].size;
      left /= dimensions[d].size;
    }
  }
  for (size_t d = 0; d < n; ++d) rows[d][n] = dimensions[d].size > 1 ? capacity(dimensions[d]) : 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::abs(rows[i][i]) < 1e-12) rows[i][i] = 1e-12;  // a dimension of one
    for (size_t d = 0; d < n; ++d) {
      if (d == i) continue;
      const double factor = rows[d][i] / rows[i][i];
      for (size_t k = i; k <= n; ++k) rows[d][k] -= factor * rows[i][k];
    }
  }
  std::vector<double> sizes(n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    if (dimensions[i].size > 1) sizes[i] = std::max(0.0, rows[i][n] / rows[i][i]);
    sum += sizes[i];
  }
  for (double& size : sizes) size = sum > 0 ? size / sum : 1.0 / static_cast<double>(n);
  WEFT_DCHECK(std::all_of(sizes.begin(), sizes.end(), [](double size) { return size >= 0; }));
  return sizes;
}

}  // namespace

bool has_rings(const Dimensions& dimensions) {
  return std::any_of(dimensions.begin(), dimensions.end(),
                     [](const Dimension& d) { return d.ring; });
}

std::vector<GridPart> make_grid_parts(const Dimensions& dimensions, Range whole) {
  const bool rings = has_rings(dimensions);
  const std::vector<double> sizes = part_sizes(dimensions);
  std::vector<GridPart> parts;
  double end = 0;
  uint64_t from = 0;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    end += sizes[d];
    const bool last = d + 1 == dimensions.size();
    const uint64_t to =
        last ? whole.count
             : std::min(whole.count, static_cast<uint64_t>(end * static_cast<double>(whole.count)));
    WEFT_DCHECK(from <= to && to <= whole.count);
    const Range range = whole.part(from, to - from);
    from = to;
    for (uint32_t half = 0; half < (rings ? 2 : 1); ++half)
      parts.push_back({.order = order_from(dimensions, d),
                       .reverse = half == 1,
                       .range = block(range, half, rings ? 2 : 1)});
  }
  return parts;
}

void reduce_scatter_dimension(Builder& b, const Grid& grid, size_t d, GridPart& part) {
  const uint32_t k = grid.dimensions[d].size, place = grid.place(d);
  b.use_dimension(static_cast<uint8_t>(d));
  const auto blocks = [&](uint32_t i, Space space) {
    return in_space(block(part.range, i % k, k), space);
  };
  if (grid.dimensions[d].ring) {
    const uint32_t step = part.reverse ? k - 1 : 1;  // forwards, modulo k
    const uint32_t next = grid.at(d, (place + step) % k),
                   previous = grid.at(d, (place + k - step) % k);
    for (uint32_t s = 0; s + 1 < k; ++s) {
      const Space from = s == 0 ? part.space : Space::work;
      b.put(next, blocks(place + (k - step) * (s + 1), from));
      const uint32_t incoming = place + (k - step) * (s + 2);
      b.receive_reduce(previous, blocks(incoming, part.space), blocks(incoming, Space::work), from);
    }
  } else {
    Space own = part.space;
    for (uint32_t i = 1; i < k; ++i)
      b.put(grid.at(d, (place + i) % k), blocks(place + i, part.space));
    for (uint32_t i = 1; i < k; ++i) {
      b.receive_reduce(grid.at(d, (place + i) % k), blocks(place, own), blocks(place, Space::work),
                       part.space);
      own = Space::work;
    }
  }
  WEFT_DCHECK(part.enclosing.size() < part.order.size() + 1);
  part.enclosing.push_back(part.range);
  part.range = block(part.range, place, k);
  if (k > 1) part.space = Space::work;
}

void all_gather_dimension(Builder& b, const Grid& grid, size_t d, GridPart& part) {
  const uint32_t k = grid.dimensions[d].size, place = grid.place(d);
  b.use_dimension(static_cast<uint8_t>(d));
  WEFT_DCHECK(!part.enclosing.empty());
  const Range whole = part.enclosing.back();
  part.enclosing.pop_back();
  const auto blocks = [&](uint32_t i) { return in_space(block(whole, i % k, k), Space::output); };
  const uint32_t step = part.reverse ? k - 1 : 1;
  for (uint32_t s = 0; s + 1 < k; ++s) {
    if (grid.dimensions[d].ring) {
      b.put(grid.at(d, (place + step) % k), blocks(place + (k - step) * s));
      b.receive(grid.at(d, (place + k - step) % k), blocks(place + (k - step) * (s + 1)));
    } else {
      b.put(grid.at(d, (place + s + 1) % k), blocks(place));
    }
  }
  for (uint32_t i = 1; i < k && !grid.dimensions[d].ring; ++i)
    b.receive(grid.at(d, (place + i) % k), blocks(place + i));
  part.range = whole;
}

}  // namespace weft::collective
