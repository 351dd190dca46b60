// SPDX-License-Identifier: BSD-3-Clause
// Flow lists from a description: Poisson arrivals with sizes from a distribution, incast,
// permutation, all-to-all. Deterministic in the seed, on every platform.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/sim/fabric/topology.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/scenario/csv.hpp"

namespace weft::sim::scenario {

using FlowList = std::vector<flow::FlowSpec>;

// Sizes by inverse CDF with linear interpolation, floor, at least 1 B (HPCC simulator).
class SizeDistribution {
 public:
  explicit SizeDistribution(std::vector<SizePoint> points) : points_(std::move(points)) {}
  uint64_t draw(base::Random& random) const;
  double mean() const;

 private:
  std::vector<SizePoint> points_;
};

// Each host alone: exponential gaps with mean = mean size x 8 / (load x NIC rate), on payload; the
// destination is uniform among the others. Every arrival before `until_ns` is kept (the HPCC
// repository's generator drops the last one of each host).
FlowList poisson(const fabric::Topology& topology, const SizeDistribution& sizes, double load,
                 int64_t until_ns, base::Random& random);

inline constexpr uint16_t kIncastPort = 200;  // what incast flows go to (HPCC simulator)

// `senders` different random hosts to one receiver, `bytes` each, at `start_ns`.
FlowList incast(const fabric::Topology& topology, uint32_t senders, uint32_t receiver,
                uint64_t bytes, int64_t start_ns, base::Random& random);
// Incasts with Poisson arrivals and random receivers that add `load` of all NICs' capacity.
FlowList incasts(const fabric::Topology& topology, uint32_t senders, uint64_t bytes, double load,
                 int64_t until_ns, base::Random& random);

// Every host sends to one other and receives from one.
FlowList permutation(const fabric::Topology& topology, uint64_t bytes, int64_t start_ns,
                     base::Random& random);
// Every host sends to every other, beginning with the next one.
FlowList all_to_all(const fabric::Topology& topology, uint64_t bytes, int64_t start_ns);

// Into the order in which flows start; equal starts keep theirs.
void sort_by_start(FlowList& flows);

}  // namespace weft::sim::scenario
