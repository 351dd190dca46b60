// SPDX-License-Identifier: BSD-3-Clause
// Hierarchical all-reduce: the first dimension is the outermost and slowest (domains, racks). The
// vector is reduce-scattered inside each domain, dimension by dimension (in parts, like
// bucket.cpp). The ranks of the same place in all domains then all-reduce a small part each: by
// recursive halving and doubling if there are a power of two domains, else directly. Then the parts
// are all-gathered inside the domains. Fewest bytes between domains, and few steps.
#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/grid.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kMaxWaves = 4;

// The all-reduce of a wave's parts between domains, in phases: reduce-scatter, finish, all-gather.
// Each phase covers all parts, because puts to one peer keep their order: no part must queue behind
// a later phase of another.
class DomainExchange {
 public:
  DomainExchange(Builder& b, const Grid& grid, std::vector<GridPart>& parts)
      : b_(b),
        grid_(grid),
        parts_(parts),
        k_(grid.dimensions[0].size),
        halves_(std::has_single_bit(k_)),
        steps_(halves_ ? static_cast<size_t>(std::bit_width(k_) - 1) : 1) {
    WEFT_DCHECK(k_ > 0 && !grid.dimensions[0].ring);
  }

  size_t phases() const { return 2 * steps_ + 1; }

  void emit(size_t phase) {
    WEFT_DCHECK(phase < phases());
    b_.use_dimension(0);
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
    if (halves_) return scatter_half(part, k_ >> (step + 1));
    reduce_scatter_dimension(b_, grid_, 0, part);
  }
  void gather(GridPart& part, size_t step) {
    if (halves_) return gather_halves(part, k_ >> (step + 1));
    all_gather_dimension(b_, grid_, 0, part);
  }

  uint32_t peer(uint32_t mask) const { return grid_.at(0, grid_.place(0) ^ mask); }
  uint32_t upper(uint32_t mask) const { return (grid_.place(0) & mask) != 0 ? 1 : 0; }

  // Sends the peer's half of the part and reduces the other half.
  void scatter_half(GridPart& part, uint32_t mask) {
    WEFT_DCHECK(std::has_single_bit(mask) && mask < k_);
    const Range whole = in_space(part.range, part.space);
    const Range kept = block(whole, upper(mask), 2);
    b_.put(peer(mask), block(whole, 1 - upper(mask), 2));
    b_.receive_reduce(peer(mask), kept, in_space(kept, Space::work), part.space);
    part.enclosing.push_back(part.range);
    part.range = kept;
    part.space = Space::work;
  }

  void gather_halves(GridPart& part, uint32_t mask) {
    WEFT_DCHECK(std::has_single_bit(mask) && mask < k_ && !part.enclosing.empty());
    const Range whole = in_space(part.enclosing.back(), Space::output);
    part.enclosing.pop_back();
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

// Large vectors are processed in waves: one is inside the domains while another is between them.
std::vector<std::vector<GridPart>> make_waves(const Shape& shape, const Dimensions& inside) {
  // Minimum elements that a rank exchanges in each step between domains.
  const uint64_t min_elements = shape.wave != 0 ? shape.wave : 32768;
  uint64_t ranks_per_domain = 1;
  for (const Dimension& d : inside) ranks_per_domain *= d.size;
  WEFT_DCHECK(shape.ranks % ranks_per_domain == 0);
  const uint64_t steps =
      2 * static_cast<uint64_t>(std::bit_width(shape.ranks / ranks_per_domain - 1));
  const uint32_t count = static_cast<uint32_t>(std::clamp<uint64_t>(
      shape.count / (ranks_per_domain * min_elements * std::max<uint64_t>(steps, 1)), 1,
      kMaxWaves));
  WEFT_DCHECK(count >= 1 && count <= kMaxWaves);
  std::vector<std::vector<GridPart>> waves;
  for (uint32_t wave = 0; wave < count; ++wave) {
    const Range range = block(work(0, shape.count), wave, count);
    waves.push_back(inside.empty() ? std::vector<GridPart>{{.range = range}}
                                   : make_grid_parts(inside, range));
  }
  return waves;
}

// Runs all phases of all waves, each wave a phase behind the previous one.
template <class Wave, class Call>
void in_waves(std::vector<Wave>& waves, size_t phases, Call call) {
  for (size_t time = 0; time + 1 < phases + waves.size(); ++time)
    for (size_t wave = 0; wave < waves.size() && wave <= time; ++wave)
      if (time - wave < phases) call(waves[wave], time - wave);
}

}  // namespace

static void hierarchical_all_reduce(Builder& b) {
  Dimensions dimensions = b.shape().dimensions;
  if (dimensions.empty()) dimensions = {{.size = b.shape().ranks, .ring = false}};
  dimensions[0].ring = false;
  const Grid grid{dimensions, b.rank()};
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  const Dimensions inside(dimensions.begin() + 1, dimensions.end());
  const size_t n = inside.size();
  std::vector<std::vector<GridPart>> waves = make_waves(b.shape(), inside);
  const auto inner = [&](const GridPart& part, size_t phase) { return part.order[phase] + 1; };
  // All reduce-scatters before all all-gathers: no step queues behind one that waits for other
  // domains.
  in_waves(waves, n, [&](std::vector<GridPart>& parts, size_t phase) {
    for (GridPart& part : parts) reduce_scatter_dimension(b, grid, inner(part, phase), part);
  });
  std::vector<DomainExchange> exchanges;
  for (std::vector<GridPart>& wave : waves) exchanges.emplace_back(b, grid, wave);
  // Small waves are bound by latency: the next follows one phase later. Large waves fill the rails:
  // the first completes first, and is all-gathered while the others cross domains.
  const size_t phases = exchanges[0].phases();
  if (waves.size() < kMaxWaves)
    in_waves(exchanges, phases, [](DomainExchange& wave, size_t phase) { wave.emit(phase); });
  else
    for (DomainExchange& wave : exchanges)
      for (size_t phase = 0; phase < phases; ++phase) wave.emit(phase);
  in_waves(waves, n, [&](std::vector<GridPart>& parts, size_t phase) {
    for (GridPart& part : parts) all_gather_dimension(b, grid, inner(part, n - 1 - phase), part);
  });
}

constexpr Algorithm kAlgorithms[] = {
    {"hierarchical", Collective::all_reduce, hierarchical_all_reduce, {}, 130},
};
WEFT_ALGORITHMS(hierarchical, kAlgorithms);

}  // namespace weft::collective
