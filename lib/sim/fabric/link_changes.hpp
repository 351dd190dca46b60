// SPDX-License-Identifier: BSD-3-Clause
// Changes of links during a run, in order of time: a link goes down or up, one direction changes
// its rate or its loss. Routing reacts to a link that went down or up after a detection time, at
// all switches at once; it ignores rates and losses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

struct LinkChange {
  int64_t at_ns = 0;
  uint32_t from = 0;  // nodes
  uint32_t to = 0;
  bool both = true;  // rate and loss: of both directions
  std::optional<bool> up;
  uint32_t mbps = 0;  // 0: stays
  std::optional<double> loss;
};

class LinkChanges {
 public:
  LinkChanges(const Topology& topology, EventWheel& wheel, Fabric& fabric, RouteTable& routes,
              SprayRoutes& spray_routes, std::vector<LinkChange> changes, int64_t detection_ns);

  // Schedules the first. Fails on a link that does not exist.
  Result<void> prepare();
  // Event::link_change: applies what is due now. Returns the hosts' ports that may send again.
  std::span<const uint32_t> apply_due();
  // A change is still to be applied or detected.
  bool pending() const noexcept { return detected_ < changes_.size(); }

 private:
  void apply(const LinkChange& change);
  bool detect(const LinkChange& change);
  void schedule();
  int64_t detected_at(const LinkChange& change) const noexcept {
    return change.at_ns + detection_ns_;
  }

  const Topology& topology_;
  EventWheel& wheel_;
  Fabric& fabric_;
  RouteTable& routes_;
  SprayRoutes& spray_routes_;
  std::vector<LinkChange> changes_;  // by time
  const int64_t detection_ns_;
  size_t applied_ = 0;            // changes that the links have made
  size_t detected_ = 0;           // changes that routing has reacted to
  std::vector<bool> dead_;        // by port: down, as far as routing has detected
  std::optional<Topology> live_;  // the network without dead_
  std::vector<uint32_t> released_;
};

}  // namespace weft::sim::fabric
