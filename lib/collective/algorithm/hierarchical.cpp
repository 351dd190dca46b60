// SPDX-License-Identifier: BSD-3-Clause
// Hierarchical all-reduce: the first dimension is the outermost and slowest (domains, racks). Each
// rank's vector is reduce-scattered inside its domain, dimension by dimension (in parts, as
// bucket.cpp), so that the ranks of the same place in all domains have to reduce a small part each;
// these do it by recursive halving and doubling if they are a power of two, else directly; then the
// parts are gathered back. Fewest bytes between domains, and few steps.
#include <algorithm>
#include <bit>

#include "lib/collective/algorithm.hpp"
#include "lib/collective/algorithm/grid.hpp"
#include "lib/collective/algorithm/parts.hpp"

namespace weft::collective {
namespace {

// The way of a wave's parts through the other domains: scattered, finished, gathered back. Step by
// step over all parts: what a rank sends to one peer it sends in this order, and no part shall wait
// for the last step of another.
class Between {
 public:
  Between(Builder& b, const Grid& grid, std::vector<GridPart>& parts)
      : b_(b), grid_(grid), parts_(parts), k_(grid.dimensions[0].size) {}

  void emit() {
    b_.go_along(0);
    const bool halves = std::has_single_bit(k_);
    if (!halves) for_parts([&](GridPart& part) { scatter_along(b_, grid_, 0, part); });
    for (uint32_t mask = k_ / 2; mask > 0 && halves; mask /= 2)
      for_parts([&](GridPart& part) { halve(part, mask); });
    for_parts([&](GridPart& part) {
      b_.finish(in_space(part.range, Space::work), in_space(part.range, Space::output));
    });
    for (uint32_t mask = 1; mask < k_ && halves; mask *= 2)
      for_parts([&](GridPart& part) { put_together(part, mask); });
    if (!halves) for_parts([&](GridPart& part) { gather_along(b_, grid_, 0, part); });
  }

 private:
  template <class Call>
  void for_parts(Call call) {
    for (GridPart& part : parts_) call(part);
  }
  uint32_t peer(uint32_t mask) const { return grid_.at(0, grid_.place(0) ^ mask); }
  uint32_t upper(uint32_t mask) const { return (grid_.place(0) & mask) != 0 ? 1 : 0; }

  // Half of the part goes to the rank that is as far away as it is large, then a quarter to the
  // next.
  void halve(GridPart& part, uint32_t mask) {
    const Range whole = in_space(part.range, part.space);
    const Range kept = block(whole, upper(mask), 2);
    b_.put(peer(mask), block(whole, 1 - upper(mask), 2));
    b_.receive_reduce(peer(mask), kept, in_space(kept, Space::work), part.space);
    part.outer.push_back(part.range);
    part.range = kept;
    part.space = Space::work;
  }

  void put_together(GridPart& part, uint32_t mask) {
    const Range whole = in_space(part.outer.back(), Space::output);
    part.outer.pop_back();
    b_.put(peer(mask), block(whole, upper(mask), 2));
    b_.receive(peer(mask), block(whole, 1 - upper(mask), 2));
    part.range = whole;
  }

  Builder& b_;
  const Grid& grid_;
  std::vector<GridPart>& parts_;
  uint32_t k_;
};

// A large vector goes through in waves: one is inside the domains while another is between them.
std::vector<std::vector<GridPart>> make_waves(const Shape& shape, const Dimensions& inside) {
  // Elements that a rank exchanges in each step between domains.
  const uint64_t least = shape.wave != 0 ? shape.wave : 32768;
  constexpr uint64_t kMost = 4;
  uint64_t places = 1;
  for (const Dimension& d : inside) places *= d.size;
  const uint64_t steps = 2 * static_cast<uint64_t>(std::bit_width(shape.ranks / places - 1));
  const uint32_t count = static_cast<uint32_t>(std::clamp<uint64_t>(
      shape.count / (places * least * std::max<uint64_t>(steps, 1)), 1, kMost));
  std::vector<std::vector<GridPart>> waves;
  for (uint32_t wave = 0; wave < count; ++wave) {
    const Range range = block(work(0, shape.count), wave, count);
    waves.push_back(inside.empty() ? std::vector<GridPart>{{.range = range}}
                                   : make_grid_parts(inside, range));
  }
  return waves;
}

// Each wave is a phase behind the one before it.
template <class Call>
void in_waves(std::vector<std::vector<GridPart>>& waves, size_t phases, Call call) {
  for (size_t time = 0; time + 1 < phases + waves.size(); ++time)
    for (size_t wave = 0; wave < waves.size() && wave <= time; ++wave)
      for (GridPart& part : waves[wave])
        if (time - wave < phases) call(part, time - wave);
}

}  // namespace

void hierarchical_all_reduce(Builder& b) {
  Dimensions dimensions = b.shape().dimensions;
  if (dimensions.empty()) dimensions = {{.size = b.shape().ranks, .ring = false}};
  dimensions[0].ring = false;
  const Grid grid{dimensions, b.rank()};
  b.work_on_output();
  if (b.shape().ranks == 1) return alone(b);
  const Dimensions inside(dimensions.begin() + 1, dimensions.end());
  const size_t n = inside.size();
  std::vector<std::vector<GridPart>> waves = make_waves(b.shape(), inside);
  const auto inner = [&](const GridPart& part, size_t phase) { return part.order[phase] + 1; };
  // All scattering before all gathering: what waits for other domains shall hold up nobody.
  in_waves(waves, n,
           [&](GridPart& part, size_t phase) { scatter_along(b, grid, inner(part, phase), part); });
  for (std::vector<GridPart>& wave : waves) Between(b, grid, wave).emit();
  in_waves(waves, n, [&](GridPart& part, size_t phase) {
    gather_along(b, grid, inner(part, n - 1 - phase), part);
  });
}

}  // namespace weft::collective
