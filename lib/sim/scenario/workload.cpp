// SPDX-License-Identifier: BSD-3-Clause
// The generators. All randomness comes from the caller's generator, in a fixed order.
#include "lib/sim/scenario/workload.hpp"

#include <algorithm>
#include <numeric>

#include "lib/base/check.hpp"
#include "lib/sim/scenario/logarithm.hpp"

namespace weft::sim::scenario {
namespace {

// Uniform in (0, 1].
double uniform(base::Random& random) {
  return static_cast<double>((random.next() >> 11) + 1) * 0x1p-53;
}

double exponential(base::Random& random, double mean) {
  WEFT_DCHECK(mean > 0);
  return -mean * natural_log(uniform(random));
}

uint32_t other_host(std::span<const uint32_t> hosts, uint32_t host, base::Random& random) {
  WEFT_DCHECK(hosts.size() > 1);
  uint32_t pick = host;
  while (pick == host) pick = hosts[random.below(hosts.size())];
  return pick;
}

double nic_bits_per_ns(const fabric::Topology& topology, uint32_t host) {
  return topology.mbps(topology.ports_of(host)[0]) / 1000.0;
}

// Fisher-Yates.
void shuffle(std::vector<uint32_t>& list, base::Random& random) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
}

}  // namespace

uint64_t SizeDistribution::draw(base::Random& random) const {
  WEFT_DCHECK(!points_.empty());
  const double percent = uniform(random) * 100;
  for (size_t i = 1; i < points_.size(); ++i) {
    const SizePoint& low = points_[i - 1];
    const SizePoint& high = points_[i];
    if (percent > high.percent) continue;
    const double width = high.percent - low.percent;
    const double share = width > 0 ? (percent - low.percent) / width : 1;
    const double bytes = low.bytes + share * (high.bytes - low.bytes);
    return std::max<uint64_t>(1, static_cast<uint64_t>(bytes));
  }
  return static_cast<uint64_t>(points_.back().bytes);
}

double SizeDistribution::mean() const {
  double sum = points_.front().bytes * points_.front().percent;
  for (size_t i = 1; i < points_.size(); ++i)
    sum += (points_[i].percent - points_[i - 1].percent) *
           (points_[i].bytes + points_[i - 1].bytes) / 2;
  return sum / 100;
}

FlowList poisson(const fabric::Topology& topology, const SizeDistribution& sizes, double load,
                 int64_t until_ns, base::Random& random) {
  FlowList flows;
  for (const uint32_t host : topology.hosts()) {
    const double mean_gap = sizes.mean() * 8 / (load * nic_bits_per_ns(topology, host));
    double at = exponential(random, mean_gap);
    while (at < static_cast<double>(until_ns)) {
      const uint64_t bytes = sizes.draw(random);
      const uint32_t to = other_host(topology.hosts(), host, random);
      flows.push_back(
          {.start_ns = static_cast<int64_t>(at), .src = host, .dst = to, .bytes = bytes});
      at += exponential(random, mean_gap);
    }
  }
  sort_by_start(flows);
  return flows;
}

FlowList incast(const fabric::Topology& topology, uint32_t senders, uint32_t receiver,
                uint64_t bytes, int64_t start_ns, base::Random& random) {
  std::vector<uint32_t> hosts(topology.hosts().begin(), topology.hosts().end());
  std::erase(hosts, receiver);
  shuffle(hosts, random);
  FlowList flows;
  for (size_t i = 0; i < std::min<size_t>(senders, hosts.size()); ++i)
    flows.push_back({.start_ns = start_ns,
                     .src = hosts[i],
                     .dst = receiver,
                     .bytes = bytes,
                     .dst_port = kIncastPort});
  return flows;
}

FlowList incasts(const fabric::Topology& topology, uint32_t senders, uint64_t bytes, double load,
                 int64_t until_ns, base::Random& random) {
  const std::span<const uint32_t> hosts = topology.hosts();
  double capacity = 0;  // bits per ns
  for (const uint32_t host : hosts) capacity += nic_bits_per_ns(topology, host);
  const double mean_gap = senders * static_cast<double>(bytes) * 8 / (load * capacity);
  FlowList flows;
  for (double at = exponential(random, mean_gap); at < static_cast<double>(until_ns);
       at += exponential(random, mean_gap)) {
    const uint32_t receiver = hosts[random.below(hosts.size())];
    const FlowList one =
        incast(topology, senders, receiver, bytes, static_cast<int64_t>(at), random);
    flows.insert(flows.end(), one.begin(), one.end());
  }
  return flows;
}

// A random cycle through all hosts: no host sends to itself.
FlowList permutation(const fabric::Topology& topology, uint64_t bytes, int64_t start_ns,
                     base::Random& random) {
  std::vector<uint32_t> cycle(topology.hosts().begin(), topology.hosts().end());
  shuffle(cycle, random);
  FlowList flows;
  for (size_t i = 0; i < cycle.size(); ++i)
    flows.push_back({.start_ns = start_ns,
                     .src = cycle[i],
                     .dst = cycle[(i + 1) % cycle.size()],
                     .bytes = bytes});
  return flows;
}

FlowList all_to_all(const fabric::Topology& topology, uint64_t bytes, int64_t start_ns) {
  const std::span<const uint32_t> hosts = topology.hosts();
  FlowList flows;
  for (size_t step = 1; step < hosts.size(); ++step)
    for (size_t i = 0; i < hosts.size(); ++i)
      flows.push_back({.start_ns = start_ns,
                       .src = hosts[i],
                       .dst = hosts[(i + step) % hosts.size()],
                       .bytes = bytes});
  return flows;
}

void sort_by_start(FlowList& flows) {
  std::stable_sort(
      flows.begin(), flows.end(),
      [](const flow::FlowSpec& a, const flow::FlowSpec& b) { return a.start_ns < b.start_ns; });
}

}  // namespace weft::sim::scenario
