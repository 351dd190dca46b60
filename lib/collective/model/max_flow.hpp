// SPDX-License-Identifier: BSD-3-Clause
// Maximum flow from one node to another in a directed graph with capacities, and the least cut that
// limits it (Dinic's algorithm: blocking flows in layers of shortest paths).
#pragma once

#include <cstdint>
#include <vector>

namespace weft::collective {

class MaxFlow {
 public:
  explicit MaxFlow(uint32_t nodes) : first_(nodes, kNone), layer_(nodes), next_(nodes) {}

  // Returns the number of the edge, for set_capacity().
  uint32_t add_edge(uint32_t from, uint32_t to, double capacity);
  void set_capacity(uint32_t edge, double capacity);
  // The flow from `source` to `target`. Earlier flows are forgotten.
  double run(uint32_t source, uint32_t target);
  // After run(): whether a node can still be reached from the source, which is a side of a least
  // cut.
  bool on_source_side(uint32_t node) const { return layer_[node] != kNone; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Edge {  // its reverse edge is the next one, or the one before: index ^ 1
    uint32_t to;
    uint32_t next;  // of the same node
    double capacity;
    double residual;
  };
  bool build_layers(uint32_t source, uint32_t target);
  double push(uint32_t node, uint32_t target, double limit);

  std::vector<uint32_t> first_;  // edge, per node
  std::vector<Edge> edges_;
  std::vector<uint32_t> layer_, next_, queue_;
  double least_ = 0;  // smaller residuals are rounding errors
};

}  // namespace weft::collective
