// SPDX-License-Identifier: BSD-3-Clause
// Chooses how many trees, and how high.
#include "lib/collective/model/forests.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/check.hpp"
#include "lib/collective/model/limits.hpp"

namespace weft::collective {
namespace {

using Kind = ForestKind;

// Blocks of all ranks are spread over some 256 trees, a vector over 128: more trees balance links
// better, and make longer schedules.
constexpr uint32_t kTreesOfBlocks = 256, kTreesOfVector = 128;
constexpr uint32_t kHighest = 12;
constexpr uint32_t kSmall = 24;  // chips
constexpr double kGood = 1.02;   // load: no more is tried
// A vector of this size weighs height against load.
constexpr double kNominalBytes = 256e6;

std::optional<Kind> kind_of(Collective collective) {
  if (gathers(collective) || scatters(collective)) return Kind::gather;
  if (collective == Collective::broadcast || collective == Collective::reduce)
    return Kind::broadcast;
  if (collective == Collective::all_reduce) return Kind::all_reduce;
  return std::nullopt;
}

// The most hops that separate a chip from `from`.
uint32_t eccentricity(const Hops& hops, uint32_t from) {
  std::vector<uint32_t> depth(hops.into.size(), UINT32_MAX), order = {from};
  depth[from] = 0;
  for (size_t at = 0; at < order.size(); ++at)
    for (const Hops::Hop& hop : hops.out_of[order[at]]) {
      if (depth[hop.from] != UINT32_MAX) continue;
      depth[hop.from] = depth[order[at]] + 1;
      order.push_back(hop.from);
    }
  WEFT_CHECK(order.size() == hops.into.size());
  return depth[order.back()];
}

// The time of a vector that takes `full_s` on the fullest link. Where all ranks send from the
// beginning, links are busy at once, and only the last hops are waited for. From one root pieces
// follow one another; with the best number of them it is the square of a sum of roots.
double seconds(Kind kind, double full_s, const Forest& forest, double hop_s) {
  WEFT_DCHECK(forest.height > 0 && full_s > 0);
  if (kind == Kind::gather) return full_s + forest.height * hop_s;
  if (kind == Kind::all_reduce) return full_s + 2 * forest.height * hop_s;
  const double root = std::sqrt(full_s) + std::sqrt((forest.height - 1) * hop_s);
  return root * root + hop_s;
}

double mean_hop_s(const Hops& hops) {
  double sum = 0, count = 0;
  for (const std::vector<Hops::Hop>& into : hops.into)
    for (const Hops::Hop& hop : into) {
      sum += hop.route->latency_s;
      ++count;
    }
  return count == 0 ? 0 : sum / count;
}

// What the network carries of one block, or vector, at best.
double limit_of(Kind kind, const Topology& network, uint32_t root) {
  if (kind == Kind::gather) return gather_limit(network).bytes_per_s;
  if (kind == Kind::all_reduce) return all_reduce_limit(network).bytes_per_s;
  return broadcast_limit(network, root).bytes_per_s;
}

PackingTask task_of(Kind kind, uint32_t chips, double limit, uint32_t root, bool through_hubs) {
  WEFT_DCHECK(chips >= 2 && limit > 0 && root < chips);
  PackingTask task;
  if (kind == Kind::gather) {
    const uint32_t each = std::max(1U, kTreesOfBlocks / chips);
    for (uint32_t tree = 0; tree < each * chips; ++tree)
      task.trees.push_back({tree / each, tree / each});
    task.optimum = limit / each;
    return task;
  }
  for (uint32_t tree = 0; tree < kTreesOfVector; ++tree)
    if (kind == Kind::all_reduce)
      task.trees.push_back({tree % chips, tree % chips});
    else
      task.trees.push_back({root, through_hubs ? tree % chips : root, true});
  task.back = kind == Kind::all_reduce;
  task.optimum = limit / kTreesOfVector;
  return task;
}

// Tries heights from the least possible on, and keeps the forest with the least predicted time.
Forest best_forest(Kind kind, const Topology& network, const Hops& hops, uint32_t root) {
  const double hop_s = mean_hop_s(hops), limit = limit_of(kind, network, root);
  uint32_t least = 0;
  for (uint32_t chip = 0; chip < network.chips; ++chip)
    if (kind != Kind::broadcast || chip == root) least = std::max(least, eccentricity(hops, chip));
  Forest best{.load = std::numeric_limits<double>::infinity()};
  double best_s = 0;
  const auto try_seed = [&](bool through_hubs, uint64_t seed) {
    PackingTask task = task_of(kind, network.chips, limit, root, through_hubs);
    task.seed = seed;
    const double full_s = kNominalBytes / (task.optimum * static_cast<double>(task.trees.size()));
    for (task.most_height = least; task.most_height <= std::max(least, kHighest);
         task.most_height += 2) {
      Forest forest = pack_trees(network, hops, task);
      const double time_s = seconds(kind, full_s * forest.load, forest, hop_s);
      if (best.ranks == 0 || time_s < best_s) {
        best = std::move(forest);
        best_s = time_s;
      }
      if (best.load < kGood) return;
    }
  };
  // The search for a small network is short, and more often ends in a local minimum.
  const uint64_t seeds = network.chips <= kSmall ? 4 : 1;
  for (uint64_t seed = 1; seed <= seeds && best.load >= kGood; ++seed) {
    try_seed(false, seed);
    if (kind == Kind::broadcast && best.load >= kGood) try_seed(true, seed);
  }
  return best;
}

}  // namespace

Forests::Side& Forests::side(bool turned) {
  std::optional<Side>& side = turned ? backwards_ : forwards_;
  if (!side) side.emplace(turned ? reversed(topology_) : topology_);
  return *side;
}

std::shared_ptr<const Forest> Forests::of(Collective collective, uint32_t root) {
  const std::optional<Kind> kind = kind_of(collective);
  if (!kind || topology_.chips < 2 || topology_.chips > kMaxSynthesisChips) return nullptr;
  if (*kind != Kind::broadcast) root = 0;
  WEFT_DCHECK(root < topology_.chips);
  const bool turned = scatters(collective) || collective == Collective::reduce;
  std::shared_ptr<const Forest>& forest = known_[{*kind, turned, root}];
  if (forest != nullptr) return forest;
  const Side& network = side(turned);
  forest = std::make_shared<const Forest>(best_forest(*kind, network.topology, network.hops, root));
  return forest;
}

}  // namespace weft::collective
