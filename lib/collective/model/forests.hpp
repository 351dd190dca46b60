// SPDX-License-Identifier: BSD-3-Clause
// The forests of a network, for each operation and root, made when first asked for and kept.
// Deterministic: all ranks that name the same network get the same trees.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "lib/collective/model/packing.hpp"
#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

// What trees carry: a block from each root, a vector from one root, or a vector there and back.
enum class ForestKind : uint8_t { gather, broadcast, all_reduce };

class Forests {
 public:
  // The topology must outlive it.
  explicit Forests(const Topology& topology) : topology_(topology) {}
  Forests(const Forests&) = delete;
  Forests& operator=(const Forests&) = delete;

  // nullptr for operations without one, and for networks of one chip or more than
  // kMaxSynthesisChips.
  std::shared_ptr<const Forest> of(Collective collective, uint32_t root);

 private:
  // The network as it is, or with every link turned round: a sum that flows up a tree there is a
  // broadcast down the tree here.
  struct Side {
    explicit Side(Topology network) : topology(std::move(network)), routes(topology) {
      hops = hops_of(topology, routes);
    }
    Topology topology;
    Routes routes;
    Hops hops;
  };
  Side& side(bool reversed);

  const Topology& topology_;
  std::optional<Side> forwards_, backwards_;
  // By kind, whether links are turned round, and root.
  std::map<std::tuple<ForestKind, bool, uint32_t>, std::shared_ptr<const Forest>> known_;
};

}  // namespace weft::collective
