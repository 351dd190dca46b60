// SPDX-License-Identifier: BSD-3-Clause
// Bucket all-reduce over dimensions: ranks form a grid (a torus, or racks, trays and chips). A part
// of the vector is reduce-scattered along one dimension after the other, then gathered back. There
// is a part for each dimension to begin with, sized so that all dimensions are busy all the time,
// and in dimensions that are rings a part for each direction. Without dimensions it is a ring in
// both directions.
// After Jain, Sabharwal (2010), "Optimal bucket algorithms for large MPI collectives on torus
// interconnects".
#include <algorithm>
#include <cmath>

#include "lib/collective/algorithm.hpp"
#include "lib/collective/algorithm/parts.hpp"

namespace weft::collective {
namespace {

using Dimensions = std::vector<Dimension>;

bool has_rings(const Dimensions& dimensions) {
  return std::any_of(dimensions.begin(), dimensions.end(),
                     [](const Dimension& d) { return d.ring; });
}

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
struct Part {
  std::vector<size_t> order;   // of dimensions
  bool reverse = false;        // the direction in rings
  Range range;                 // of elements: less after each scattering
  std::vector<Range> outer;    // what it was before
  Space space = Space::input;  // of the contribution
};

// A part that begins with `first` goes on with the fastest dimensions: less is left for the slow
// ones. Among equal ones the next comes next, so that parts do not meet.
std::vector<size_t> order_from(const Dimensions& dimensions, size_t first) {
  std::vector<size_t> order;
  for (size_t i = 0; i < dimensions.size(); ++i) order.push_back((first + i) % dimensions.size());
  std::stable_sort(order.begin() + 1, order.end(),
                   [&](size_t a, size_t b) { return dimensions[a].rate > dimensions[b].rate; });
  return order;
}

// Sizes for parts that begin with each dimension: the share of part e that crosses dimension d,
// times the sizes, shall be in the ratio of the rates. By elimination; a negative size becomes
// none.
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
  for (size_t d = 0; d < n; ++d) rows[d][n] = dimensions[d].rate;
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
  return sizes;
}

// A large vector goes through in waves, so that dimensions whose phases are short do not idle while
// others work. Equal dimensions have equal phases and need none; rings pay a wave with the latency
// of all their steps.
uint32_t waves_of(const Shape& shape) {
  constexpr uint64_t kLeastBlock = 16384;  // elements that a rank owns in each wave
  const Dimensions& all = shape.dimensions;
  if (std::all_of(all.begin(), all.end(), [&](const Dimension& d) { return d == all[0]; }))
    return 1;
  const uint64_t most = has_rings(all) ? 4 : 16;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(shape.count / (shape.ranks * kLeastBlock), 1, most));
}

std::vector<Part> make_parts(const Dimensions& dimensions, Range whole) {
  const bool rings =
      std::any_of(dimensions.begin(), dimensions.end(), [](const Dimension& d) { return d.ring; });
  const std::vector<double> sizes = part_sizes(dimensions);
  std::vector<Part> parts;
  double end = 0;
  uint64_t from = 0;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    end += sizes[d];
    const bool last = d + 1 == dimensions.size();
    const uint64_t to =
        last ? whole.count
             : std::min(whole.count, static_cast<uint64_t>(end * static_cast<double>(whole.count)));
    const Range range = whole.part(from, to - from);
    from = to;
    for (uint32_t half = 0; half < (rings ? 2 : 1); ++half)
      parts.push_back({order_from(dimensions, d), half == 1, block(range, half, rings ? 2 : 1)});
  }
  return parts;
}

Range in_space(Range range, Space space) { return {space, range.offset, range.count}; }

// Scatters the part along one dimension: of its k blocks this rank keeps the one of its place.
void scatter(Builder& b, const Grid& grid, size_t d, Part& part) {
  const uint32_t k = grid.dimensions[d].size, place = grid.place(d);
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
  part.outer.push_back(part.range);
  part.range = block(part.range, place, k);
  if (k > 1) part.space = Space::work;
}

// The way back: every rank of the line gets all blocks.
void gather(Builder& b, const Grid& grid, size_t d, Part& part) {
  const uint32_t k = grid.dimensions[d].size, place = grid.place(d);
  const Range whole = part.outer.back();
  part.outer.pop_back();
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

}  // namespace

void bucket_all_reduce(Builder& b) {
  Dimensions dimensions = b.shape().dimensions;
  if (dimensions.empty()) dimensions = {{.size = b.shape().ranks}};
  const Grid grid{dimensions, b.rank()};
  const size_t n = dimensions.size();
  b.work_on_output();
  if (b.shape().ranks == 1) return alone(b);
  const uint32_t waves = waves_of(b.shape());
  std::vector<std::vector<Part>> parts;
  for (uint32_t wave = 0; wave < waves; ++wave)
    parts.push_back(make_parts(dimensions, block(work(0, b.shape().count), wave, waves)));
  // Each wave is a phase behind the one before it. In the order of time over all waves, so that no
  // part waits on a link for a later phase of another.
  for (size_t time = 0; time < 2 * n + waves - 1; ++time)
    for (size_t wave = 0; wave < waves && wave <= time; ++wave)
      for (Part& part : parts[wave]) {
        const size_t phase = time - wave;
        if (phase < n) scatter(b, grid, part.order[phase], part);
        if (phase + 1 == n) b.finish(part.range, in_space(part.range, Space::output));
        if (phase >= n && phase < 2 * n) gather(b, grid, part.order[2 * n - 1 - phase], part);
      }
}

}  // namespace weft::collective
