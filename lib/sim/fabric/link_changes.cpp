// SPDX-License-Identifier: BSD-3-Clause
// Two cursors over one list: changes applied, and, a detection time later, changes detected.
#include "lib/sim/fabric/link_changes.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

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
  schedule();
  return {};
}

std::span<const uint32_t> LinkChanges::apply_due() {
  const int64_t now_ns = wheel_.now() / 1000;
  released_.clear();
  while (applied_ < changes_.size() && changes_[applied_].at_ns <= now_ns)
    apply(changes_[applied_++]);
  bool rerouted = false;
  while (detected_ < applied_ && detected_at(changes_[detected_]) <= now_ns)
    rerouted |= detect(changes_[detected_++]);
  if (rerouted) {
    live_ = topology_.without(dead_);
    routes_.reroute(*live_);
    spray_routes_.reroute(*live_);
    fabric_.rerouted();
  }
  WEFT_DCHECK(detected_ <= applied_ && applied_ <= changes_.size());
  schedule();
  return released_;
}

void LinkChanges::apply(const LinkChange& change) {
  const uint32_t port = topology_.port_between(change.from, change.to);
  WEFT_DCHECK(port != Topology::kNone);
  for (const uint32_t end : {port, port ^ 1}) {
    if (change.up && fabric_.set_down(end, !*change.up)) released_.push_back(end);
    if (end != port && !change.both) continue;
    if (change.mbps != 0) fabric_.set_rate(end, change.mbps);
    if (change.loss) fabric_.set_loss(end, *change.loss);
  }
}

// True if routes change.
bool LinkChanges::detect(const LinkChange& change) {
  if (!change.up) return false;
  const uint32_t port = topology_.port_between(change.from, change.to);
  const bool changes = dead_[port] == *change.up;
  dead_[port] = dead_[port ^ 1] = !*change.up;
  return changes;
}

void LinkChanges::schedule() {
  int64_t next_ns = INT64_MAX;
  if (applied_ < changes_.size()) next_ns = changes_[applied_].at_ns;
  if (detected_ < applied_) next_ns = std::min(next_ns, detected_at(changes_[detected_]));
  if (next_ns != INT64_MAX) wheel_.plan(next_ns * 1000, Event::link_change, 0);
}

}  // namespace weft::sim::fabric
