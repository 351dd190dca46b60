// SPDX-License-Identifier: BSD-3-Clause
// Hierarchical all-reduce: the first dimension is the outermost and slowest (domains, racks). Each
// rank's vector is reduce-scattered inside its domain, dimension by dimension (in parts, as
// bucket.cpp), so that the ranks of the same place in all domains have to reduce a small part each;
// these do it by recursive halving and doubling if they are a power of two, else directly; then the
// parts are gathered back. Fewest bytes between domains, and few steps.
#include <algorithm>
#include <bit>

#include "lib/collective/algorithm/grid.hpp"
#include "lib/collective/algorithm/parts.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kMostWaves = 4;

// The way of a wave's parts through the other domains: scattered, finished, gathered back, in
// phases. Each over all parts: what a rank sends to one peer it sends in this order, and no part
// shall wait for the last phase of another.
class Between {
 public:
  Between(Builder& b, const Grid& grid, std::vector<GridPart>& parts)
      : b_(b),
        grid_(grid),
        parts_(parts),
        k_(grid.dimensions[0].size),
        halves_(std::has_single_bit(k_)),
        steps_(halves_ ? static_cast<size_t>(std::bit_width(k_) - 1) : 1) {}

  size_t phases() const { return 2 * steps_ + 1; }

  void emit(size_t phase) {
    b_.go_along(0);
    for (GridPart& part : parts_) {
      if (phase < steps_)
        scatter(part, phase);
      else if (phase > steps_)
        gather(part, 2 * steps_ - phase);
      else
        b_.finish(in_space(part.range, Space::work), in_space(part.range, Space::output));
    }
  }

 private:
  void scatter(GridPart& part, size_t step) {
    if (halves_) return halve(part, k_ >> (step + 1));
    scatter_along(b_, grid_, 0, part);
  }
  void gather(GridPart& part, size_t step) {
    if (halves_) return put_together(part, k_ >> (step + 1));
    gather_along(b_, grid_, 0, part);
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
  bool halves_;
  size_t steps_;  // each way
};

// A large vector goes through in waves: one is inside the domains while another is between them.
std::vector<std::vector<GridPart>> make_waves(const Shape& shape, const Dimensions& inside) {
  // Elements that a rank exchanges in each step between domains.
  const uint64_t least = shape.wave != 0 ? shape.wave : 32768;
  uint64_t places = 1;
  for (const Dimension& d : inside) places *= d.size;
  const uint64_t steps = 2 * static_cast<uint64_t>(std::bit_width(shape.ranks / places - 1));
  const uint32_t count = static_cast<uint32_t>(std::clamp<uint64_t>(
      shape.count / (places * least * std::max<uint64_t>(steps, 1)), 1, kMostWaves));
  std::vector<std::vector<GridPart>> waves;
  for (uint32_t wave = 0; wave < count; ++wave) {
    const Range range = block(work(0, shape.count), wave, count);
    waves.push_back(inside.empty() ? std::vector<GridPart>{{.range = range}}
                                   : make_grid_parts(inside, range));
  }
  return waves;
}

// Each wave is a phase behind the one before it.
template <class Wave, class Call>
void in_waves(std::vector<Wave>& waves, size_t phases, Call call) {
  for (size_t time = 0; time + 1 < phases + waves.size(); ++time)
    for (size_t wave = 0; wave < waves.size() && wave <= time; ++wave)
      if (time - wave < phases) call(waves[wave], time - wave);
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
  in_waves(waves, n, [&](std::vector<GridPart>& parts, size_t phase) {
    for (GridPart& part : parts) scatter_along(b, grid, inner(part, phase), part);
  });
  std::vector<Between> between;
  for (std::vector<GridPart>& wave : waves) between.emplace_back(b, grid, wave);
  // Small waves are mostly on their way: the next is a phase behind. Of large ones, which fill the
  // rails, the first is to be done first, and is gathered while others are between.
  const size_t phases = between[0].phases();
  if (waves.size() < kMostWaves)
    in_waves(between, phases, [](Between& wave, size_t phase) { wave.emit(phase); });
  else
    for (Between& wave : between)
      for (size_t phase = 0; phase < phases; ++phase) wave.emit(phase);
  in_waves(waves, n, [&](std::vector<GridPart>& parts, size_t phase) {
    for (GridPart& part : parts) gather_along(b, grid, inner(part, n - 1 - phase), part);
  });
}

}  // namespace weft::collective
