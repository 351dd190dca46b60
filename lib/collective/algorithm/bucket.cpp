// SPDX-License-Identifier: BSD-3-Clause
// Bucket all-reduce over dimensions: ranks form a grid (a torus, or racks, trays and chips). A part
// of the vector is reduce-scattered along one dimension after the other, then gathered back. There
// is a part for each dimension to begin with, sized so that all dimensions are busy all the time,
// and in dimensions that are rings a part for each direction. Without dimensions it is a ring in
// both directions.
// After Jain, Sabharwal (2010), "Optimal bucket algorithms for large MPI collectives on torus
// interconnects".
#include <algorithm>

#include "lib/collective/algorithm/grid.hpp"
#include "lib/collective/algorithm/parts.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

// A large vector goes through in waves, so that dimensions whose phases are short do not idle while
// others work. Equal dimensions have equal phases and need none; rings pay a wave with the latency
// of all their steps.
uint32_t waves_of(const Shape& shape) {
  // Elements that a rank owns in each wave.
  const uint64_t least = shape.wave != 0 ? shape.wave : 16384;
  const Dimensions& all = shape.dimensions;
  if (std::all_of(all.begin(), all.end(), [&](const Dimension& d) { return d == all[0]; }))
    return 1;
  const uint64_t most = has_rings(all) ? 4 : 16;
  return static_cast<uint32_t>(std::clamp<uint64_t>(shape.count / (shape.ranks * least), 1, most));
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
  std::vector<std::vector<GridPart>> parts;
  for (uint32_t wave = 0; wave < waves; ++wave)
    parts.push_back(make_grid_parts(dimensions, block(work(0, b.shape().count), wave, waves)));
  // Each wave is a phase behind the one before it. In the order of time over all waves, so that no
  // part waits on a link for a later phase of another.
  for (size_t time = 0; time < 2 * n + waves - 1; ++time)
    for (size_t wave = 0; wave < waves && wave <= time; ++wave)
      for (GridPart& part : parts[wave]) {
        const size_t phase = time - wave;
        if (phase < n) scatter_along(b, grid, part.order[phase], part);
        if (phase + 1 == n) b.finish(part.range, in_space(part.range, Space::output));
        if (phase >= n && phase < 2 * n) gather_along(b, grid, part.order[2 * n - 1 - phase], part);
      }
}

}  // namespace weft::collective
