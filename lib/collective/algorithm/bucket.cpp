// SPDX-License-Identifier: BSD-3-Clause
// Bucket all-reduce over dimensions: ranks form a grid (a torus, or racks, trays and chips). Each
// part of the vector (grid.hpp) is reduce-scattered along one dimension after the other, then
// all-gathered in reverse order. Without dimensions this is a ring in both directions.
// After Jain, Sabharwal (2010), "Optimal bucket algorithms for large MPI collectives on torus
// interconnects".
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/grid.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

// Large vectors are processed in waves, so that dimensions with short phases do not idle while
// others work. Equal dimensions have equal phases and need one wave; in rings each wave costs the
// latency of all steps.
uint32_t waves_of(const Shape& shape) {
  // Minimum elements that a rank owns in each wave.
  const uint64_t least = shape.wave != 0 ? shape.wave : 16384;
  const Dimensions& all = shape.dimensions;
  if (std::all_of(all.begin(), all.end(), [&](const Dimension& d) { return d == all[0]; }))
    return 1;
  const uint64_t most = has_rings(all) ? 4 : 16;
  return static_cast<uint32_t>(std::clamp<uint64_t>(shape.count / (shape.ranks * least), 1, most));
}

}  // namespace

static void bucket_all_reduce(Builder& b) {
  Dimensions dimensions = b.shape().dimensions;
  if (dimensions.empty()) dimensions = {{.size = b.shape().ranks}};
  const Grid grid{dimensions, b.rank()};
  const size_t n = dimensions.size();
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  const uint32_t waves = waves_of(b.shape());
  WEFT_DCHECK(grid.stride(0) * dimensions[0].size == b.shape().ranks && waves >= 1);
  std::vector<std::vector<GridPart>> parts;
  for (uint32_t wave = 0; wave < waves; ++wave)
    parts.push_back(make_grid_parts(dimensions, block(work(0, b.shape().count), wave, waves)));
  // Each wave is a phase behind the previous one. Steps are emitted in the order of time over all
  // waves, so that no part queues on a link behind a later phase of another.
  for (size_t time = 0; time < 2 * n + waves - 1; ++time)
    for (size_t wave = 0; wave < waves && wave <= time; ++wave)
      for (GridPart& part : parts[wave]) {
        const size_t phase = time - wave;
        WEFT_DCHECK(part.order.size() == n);
        if (phase < n) reduce_scatter_dimension(b, grid, part.order[phase], part);
        if (phase + 1 == n) b.finish(part.range, in_space(part.range, Space::output));
        if (phase >= n && phase < 2 * n)
          all_gather_dimension(b, grid, part.order[2 * n - 1 - phase], part);
      }
}

constexpr Algorithm kAlgorithms[] = {
    {"bucket", Collective::all_reduce, bucket_all_reduce, {}, 120},
};
WEFT_ALGORITHMS(bucket, kAlgorithms);

}  // namespace weft::collective
