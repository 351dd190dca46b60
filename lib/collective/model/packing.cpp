// SPDX-License-Identifier: BSD-3-Clause
// The search for trees.
#include "lib/collective/model/packing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// The chips that are reached from `chip` without passing through another one.
std::vector<uint32_t> next_chips(const Topology& topology,
                                 const std::vector<std::vector<uint32_t>>& next, uint32_t chip) {
  std::vector<bool> seen(topology.nodes);
  std::vector<uint32_t> queue = {chip}, chips;
  seen[chip] = true;
  for (size_t at = 0; at < queue.size(); ++at)
    for (const uint32_t node : next[queue[at]]) {
      if (seen[node]) continue;
      seen[node] = true;
      (node < topology.chips ? chips : queue).push_back(node);
    }
  return chips;
}

// Hops come in pairs, there and back.
[[maybe_unused]] bool goes_both_ways(const Topology& topology, const NetworkLink& link) {
  return std::any_of(topology.links.begin(), topology.links.end(), [&](const NetworkLink& back) {
    return back.from == link.to && back.to == link.from;
  });
}

class Search {
 public:
  Search(const Topology& topology, const Hops& hops, const PackingTask& task)
      : topology_(topology),
        hops_(hops),
        task_(task),
        random_(task.seed),
        per_tree_(topology.links.size()),
        load_(topology.links.size()),
        depth_(topology.chips),
        height_(topology.chips) {
    for (size_t link = 0; link < topology.links.size(); ++link)
      per_tree_[link] = task.optimum / topology.links[link].bytes_per_s;
  }

  Forest run() {
    constexpr int kPowers[] = {2, 4, 8, 16, 32, 64};
    constexpr int kSweeps = 8;
    power_ = kPowers[0];
    for (const PackingTask::Seed& seed : task_.trees) grow(seed);
    for (const int power : kPowers) {
      power_ = power;
      for (int sweep = 0; sweep < kSweeps; ++sweep) {
        noise_ = static_cast<double>(kSweeps - 1 - sweep) / kSweeps;
        for (SpanningTree& tree : trees_) improve(tree);
      }
    }
    Forest forest = make_forest(topology_.chips, std::move(trees_));
    forest.load = *std::max_element(load_.begin(), load_.end());
    WEFT_DCHECK(forest.load > 0);
    return forest;
  }

 private:
  using Hop = Hops::Hop;

  // Calls for each link of the hop of `child` from its parent: the link and the load it takes.
  template <class Call>
  void for_links(const Hop& in, const Hop& out, Call call) const {
    for (const RouteShare& part : in.route->shares)
      call(part.link, part.share * per_tree_[part.link]);
    if (task_.back)
      for (const RouteShare& part : out.route->shares)
        call(part.link, part.share * per_tree_[part.link]);
  }
  double cost_of(double load) const {
    double cost = load;
    for (int power = 1; power < power_; power *= 2) cost *= cost;
    return cost;
  }
  // Up to twice the cost at the beginning of a power: the search leaves local minima.
  double noisy(double cost) {
    return cost * (1 + noise_ * static_cast<double>(random_.below(1024)) / 1024);
  }
  double added_cost(uint32_t child, size_t hop) const {
    double cost = 0;
    for_links(hops_.into[child][hop], hops_.out_of[child][hop], [&](uint32_t link, double more) {
      cost += cost_of(load_[link] + more) - cost_of(load_[link]);
    });
    return cost;
  }
  void add_load(uint32_t child, size_t hop, double times) {
    for_links(hops_.into[child][hop], hops_.out_of[child][hop],
              [&](uint32_t link, double more) { load_[link] += times * more; });
  }
  size_t hop_from(uint32_t child, uint32_t parent) const {
    const std::vector<Hop>& hops = hops_.into[child];
    for (size_t hop = 0; hop < hops.size(); ++hop)
      if (hops[hop].from == parent) return hop;
    WEFT_CHECK(false);
    return 0;
  }

  // Adds a tree: from the root to a child, on a shortest path to the hub, and then by shortest
  // paths to the others; what is not reached from the hub without passing that path hangs from the
  // path.
  void grow(const PackingTask::Seed& seed) {
    SpanningTree tree{seed.root, std::vector<uint32_t>(topology_.chips, kNone)};
    tree.parent[seed.root] = seed.root;
    std::vector<uint32_t> path;
    uint32_t hub = seed.root;
    if (seed.one_child) {
      const uint32_t child = first_child(seed.root);
      find_distances({child}, {seed.root});
      hub = seed.hub == seed.root || depth_[seed.hub] >= kNone - 1 ? child : seed.hub;
      for (uint32_t chip = hub; chip != child; chip = tree.parent[chip]) {
        tree.parent[chip] = nearer(chip);
        path.push_back(tree.parent[chip]);
      }
      tree.parent[child] = seed.root;
      path.push_back(seed.root);
      for (uint32_t chip = hub; chip != seed.root; chip = tree.parent[chip])
        add_load(chip, hop_from(chip, tree.parent[chip]), 1);
    }
    spread(tree, {hub}, path);
    if (!path.empty()) spread(tree, path, {});
    trees_.push_back(std::move(tree));
  }

  uint32_t first_child(uint32_t root) const {
    double least = std::numeric_limits<double>::infinity();
    uint32_t best = kNone;
    for (const Hop& out : hops_.out_of[root]) {
      const double cost = added_cost(out.from, hop_from(out.from, root));
      if (cost < least) least = cost, best = out.from;
    }
    WEFT_CHECK(best != kNone);
    return best;
  }

  // Fills depth_ and order_: hops from the nearest of `tops`; `closed` chips are not passed.
  void find_distances(const std::vector<uint32_t>& tops, const std::vector<uint32_t>& closed) {
    depth_.assign(topology_.chips, kNone);
    for (const uint32_t chip : closed) depth_[chip] = kNone - 1;
    for (const uint32_t chip : tops) depth_[chip] = 0;
    order_ = tops;
    for (size_t at = 0; at < order_.size(); ++at)
      for (const Hop& hop : hops_.out_of[order_[at]]) {
        if (depth_[hop.from] != kNone) continue;
        depth_[hop.from] = depth_[order_[at]] + 1;
        order_.push_back(hop.from);
      }
  }

  // Of the chips that are one hop nearer, the one whose hop costs least.
  uint32_t nearer(uint32_t child) const {
    double least = std::numeric_limits<double>::infinity();
    uint32_t best = kNone;
    for (size_t hop = 0; hop < hops_.into[child].size(); ++hop) {
      const uint32_t from = hops_.into[child][hop].from;
      if (depth_[from] + 1 != depth_[child]) continue;
      const double cost = added_cost(child, hop);
      if (cost < least) least = cost, best = from;
    }
    WEFT_CHECK(best != kNone);
    return best;
  }

  void spread(SpanningTree& tree, const std::vector<uint32_t>& tops,
              const std::vector<uint32_t>& closed) {
    find_distances(tops, closed);
    for (const uint32_t child : order_) {
      if (depth_[child] == 0 || tree.parent[child] != kNone) continue;
      tree.parent[child] = nearer(child);
      add_load(child, hop_from(child, tree.parent[child]), 1);
    }
  }

  // Depth of each chip, and height of what hangs below it.
  void measure(const SpanningTree& tree) {
    order_.assign(1, tree.root);
    depth_[tree.root] = 0;
    children_.assign(topology_.chips, {});
    for (uint32_t chip = 0; chip < topology_.chips; ++chip)
      if (chip != tree.root) children_[tree.parent[chip]].push_back(chip);
    for (size_t at = 0; at < order_.size(); ++at)
      for (const uint32_t child : children_[order_[at]]) {
        depth_[child] = depth_[order_[at]] + 1;
        order_.push_back(child);
      }
    WEFT_DCHECK(order_.size() == topology_.chips);
    for (size_t at = order_.size(); at-- > 0;) {
      height_[order_[at]] = 0;
      for (const uint32_t child : children_[order_[at]])
        height_[order_[at]] = std::max(height_[order_[at]], height_[child] + 1);
    }
  }

  bool is_below(const SpanningTree& tree, uint32_t chip, uint32_t top) const {
    for (; chip != tree.root; chip = tree.parent[chip])
      if (chip == top) return true;
    return false;
  }

  void improve(SpanningTree& tree) {
    measure(tree);
    const uint32_t first = static_cast<uint32_t>(random_.below(topology_.chips));
    for (uint32_t i = 0; i < topology_.chips; ++i) {
      const uint32_t child = (first + i) % topology_.chips;
      if (child == tree.root) continue;
      const size_t now = hop_from(child, tree.parent[child]);
      add_load(child, now, -1);
      double least = noisy(added_cost(child, now)) * (1 - 1e-9);
      size_t best = now;
      for (size_t hop = 0; hop < hops_.into[child].size(); ++hop) {
        const uint32_t from = hops_.into[child][hop].from;
        if (hop == now || depth_[from] + 1 + height_[child] > task_.most_height) continue;
        const double cost = noisy(added_cost(child, hop));
        if (cost >= least || is_below(tree, from, child)) continue;
        least = cost;
        best = hop;
      }
      add_load(child, best, 1);
      if (best == now) continue;
      tree.parent[child] = hops_.into[child][best].from;
      measure(tree);
    }
  }

  const Topology& topology_;
  const Hops& hops_;
  const PackingTask& task_;
  base::Random random_;
  int power_ = 2;
  double noise_ = 0;                     // 0 to 1
  std::vector<double> per_tree_, load_;  // per link, relative to the optimum
  std::vector<SpanningTree> trees_;
  std::vector<uint32_t> depth_, height_, order_;  // of the tree at hand
  std::vector<std::vector<uint32_t>> children_;
};

}  // namespace

Hops hops_of(const Topology& topology, Routes& routes) {
  std::vector<std::vector<uint32_t>> next(topology.nodes);
  for (const NetworkLink& link : topology.links) {
    WEFT_DCHECK(goes_both_ways(topology, link));
    next[link.from].push_back(link.to);
  }
  Hops hops{std::vector<std::vector<Hops::Hop>>(topology.chips),
            std::vector<std::vector<Hops::Hop>>(topology.chips)};
  for (uint32_t from = 0; from < topology.chips; ++from)
    for (const uint32_t to : next_chips(topology, next, from)) {
      hops.into[to].push_back({from, &routes.between(from, to)});
      hops.out_of[to].push_back({from, &routes.between(to, from)});
    }
  return hops;
}

Forest pack_trees(const Topology& topology, const Hops& hops, const PackingTask& task) {
  WEFT_DCHECK(!task.trees.empty() && task.optimum > 0);
  return Search(topology, hops, task).run();
}

}  // namespace weft::collective
