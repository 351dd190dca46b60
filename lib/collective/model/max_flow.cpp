// SPDX-License-Identifier: BSD-3-Clause
// Dinic's algorithm.
#include "lib/collective/model/max_flow.hpp"

#include <algorithm>
#include <limits>

#include "lib/base/check.hpp"

namespace weft::collective {

uint32_t MaxFlow::add_edge(uint32_t from, uint32_t to, double capacity) {
  WEFT_DCHECK(from < first_.size() && to < first_.size() && capacity >= 0);
  const uint32_t edge = static_cast<uint32_t>(edges_.size());
  edges_.push_back({to, first_[from], capacity, 0});
  first_[from] = edge;
  edges_.push_back({from, first_[to], 0, 0});
  first_[to] = edge + 1;
  return edge;
}

void MaxFlow::set_capacity(uint32_t edge, double capacity) {
  WEFT_DCHECK(edge < edges_.size() && edge % 2 == 0 && capacity >= 0);
  edges_[edge].capacity = capacity;
}

bool MaxFlow::build_layers(uint32_t source, uint32_t target) {
  std::fill(layer_.begin(), layer_.end(), kNone);
  layer_[source] = 0;
  queue_.assign(1, source);
  for (size_t at = 0; at < queue_.size(); ++at)
    for (uint32_t edge = first_[queue_[at]]; edge != kNone; edge = edges_[edge].next) {
      const uint32_t to = edges_[edge].to;
      if (layer_[to] != kNone || edges_[edge].residual <= least_) continue;
      layer_[to] = layer_[queue_[at]] + 1;
      queue_.push_back(to);
    }
  return layer_[target] != kNone;
}

double MaxFlow::push(uint32_t node, uint32_t target, double limit) {
  if (node == target) return limit;
  double pushed = 0;
  for (uint32_t& edge = next_[node]; edge != kNone; edge = edges_[edge].next) {
    const uint32_t to = edges_[edge].to;
    if (layer_[to] != layer_[node] + 1 || edges_[edge].residual <= least_) continue;
    const double step = push(to, target, std::min(limit - pushed, edges_[edge].residual));
    WEFT_DCHECK(step >= 0 && step <= edges_[edge].residual + least_);
    edges_[edge].residual -= step;
    edges_[edge ^ 1].residual += step;
    pushed += step;
    if (limit - pushed <= least_) return pushed;
  }
  return pushed;
}

double MaxFlow::run(uint32_t source, uint32_t target) {
  WEFT_DCHECK(source < first_.size() && target < first_.size() && source != target);
  double total = 0;
  for (Edge& edge : edges_) {
    edge.residual = edge.capacity;
    total += edge.capacity;
  }
  least_ = total * 1e-13;
  double flow = 0;
  while (build_layers(source, target)) {
    next_ = first_;
    flow += push(source, target, total);
  }
  WEFT_DCHECK(flow >= 0 && flow <= total);
  return flow;
}

}  // namespace weft::collective
