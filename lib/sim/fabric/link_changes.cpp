// SPDX-License-Identifier: BSD-3-Clause
// Two cursors over one list: what has happened, and, a detection time behind it, what is known.
#include "lib/sim/fabric/link_changes.hpp"

#include <algorithm>

namespace weft::sim::fabric {

LinkChanges::LinkChanges(const Topology& topology, EventWheel& wheel, Fabric& fabric,
                         RouteTable& routes, SprayRoutes& spray_routes,
                         std::vector<LinkChange> changes, int64_t detection_ns)
    : topology_(topology),
      wheel_(wheel),
      fabric_(fabric),
      routes_(routes),
      spray_routes_(spray_routes),
      changes_(std::move(changes)),
      detection_ns_(detection_ns),
      dead_(topology.port_count()) {
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
}

Result<void> LinkChanges::prepare() {
  for (const LinkChange& change : changes_) {
    const uint32_t port = change.from < topology_.node_count()
                              ? topology_.port_between(change.from, change.to)
                              : Topology::kNone;
    if (port == Topology::kNone)
      return Error{Code::invalid_argument, "events: there is no link from node " +
                                               std::to_string(change.from) + " to node " +
                                               std::to_string(change.to)};
  }
  plan();
  return {};
}

std::span<const uint32_t> LinkChanges::happen() {
  const int64_t now_ns = wheel_.now() / 1000;
  released_.clear();
  while (happened_ < changes_.size() && changes_[happened_].at_ns <= now_ns)
    apply(changes_[happened_++]);
  bool learnt = false;
  while (known_ < happened_ && known_at(changes_[known_]) <= now_ns)
    learnt |= learn(changes_[known_++]);
  if (learnt) {
    live_ = topology_.without(dead_);
    routes_.reroute(*live_);
    spray_routes_.reroute(*live_);
    fabric_.rerouted();
  }
  plan();
  return released_;
}

void LinkChanges::apply(const LinkChange& change) {
  const uint32_t port = topology_.port_between(change.from, change.to);
  for (const uint32_t end : {port, port ^ 1}) {
    if (change.up && fabric_.set_down(end, !*change.up)) released_.push_back(end);
    if (end != port && !change.both) continue;
    if (change.mbps != 0) fabric_.set_rate(end, change.mbps);
    if (change.loss) fabric_.set_loss(end, *change.loss);
  }
}

// True if it changes where packets should go.
bool LinkChanges::learn(const LinkChange& change) {
  if (!change.up) return false;
  const uint32_t port = topology_.port_between(change.from, change.to);
  const bool changes = dead_[port] == *change.up;
  dead_[port] = dead_[port ^ 1] = !*change.up;
  return changes;
}

void LinkChanges::plan() {
  int64_t next_ns = INT64_MAX;
  if (happened_ < changes_.size()) next_ns = changes_[happened_].at_ns;
  if (known_ < happened_) next_ns = std::min(next_ns, known_at(changes_[known_]));
  if (next_ns != INT64_MAX) wheel_.plan(next_ns * 1000, Event::link_change, 0);
}

}  // namespace weft::sim::fabric
