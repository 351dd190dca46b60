// SPDX-License-Identifier: BSD-3-Clause
// What happens to links during a run, in the order of time: a link goes down or up, one direction
// gets another rate or begins to lose packets. Routing knows of a link that went down or up after a
// detection time, everywhere at once; rates and losses it never looks at.
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

  // Plans the first. Fails on a link that is not there.
  Result<void> prepare();
  // Event::link_change: does what is due now. The hosts' ports that may send again because of it.
  std::span<const uint32_t> happen();
  // Something will still happen, or become known.
  bool pending() const noexcept { return known_ < changes_.size(); }

 private:
  void apply(const LinkChange& change);
  bool learn(const LinkChange& change);
  void plan();
  int64_t known_at(const LinkChange& change) const noexcept { return change.at_ns + detection_ns_; }

  const Topology& topology_;
  EventWheel& wheel_;
  Fabric& fabric_;
  RouteTable& routes_;
  SprayRoutes& spray_routes_;
  std::vector<LinkChange> changes_;  // by time
  const int64_t detection_ns_;
  size_t happened_ = 0;           // changes that have
  size_t known_ = 0;              // changes that routing knows of
  std::vector<bool> dead_;        // by port: what routing believes
  std::optional<Topology> live_;  // the network without them
  std::vector<uint32_t> released_;
};

}  // namespace weft::sim::fabric
