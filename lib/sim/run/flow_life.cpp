// SPDX-License-Identifier: BSD-3-Clause
// See flow_life.hpp. What a packet waited at a port is the time between its arrivals at the two
// ends of the cable, less serialisation and delay.
#include "lib/sim/run/flow_life.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/check.hpp"

namespace weft::sim::flow {

using fabric::Event;
using fabric::Packet;

void FlowLife::see(const Packet& packet) {
  const Event event = packet.tag.event;
  if (event == Event::pause) pauses_.push_back({packet.target, packet.at, -1});
  if (event == Event::resume)
    for (Pause& pause : pauses_)
      if (pause.port == packet.target && pause.end < 0) pause.end = packet.at;
  if (!fabric::is_packet(event) || packet.flow != flow_) return;
  if (event == Event::data || event == Event::trimmed) return see_data(packet);
  if (!packet.tag.at_host || fabric::is_forward(event)) return;
  report_.acks += event == Event::ack;
  report_.naks += event == Event::nak;
  report_.cnps += packet.tag.cnp;
  report_.grants += event == Event::credit_grant;
}

void FlowLife::see_data(const Packet& packet) {
  WEFT_DCHECK(packet.hop > 0);
  if (begun_ < 0) begun_ = packet.at;
  ended_ = packet.at;
  if (packet.hop == 1) {
    if (packet.number < highest_) ++report_.retransmitted;
    highest_ = std::max(highest_, packet.number + 1);
    in_network_[packet.number] = packet.at;
  }
  const auto before = seen_.find(key(packet.number, packet.hop - 1u));
  if (before != seen_.end()) {
    leave(packet, before->second);
    seen_.erase(before);
  }
  if (packet.tag.at_host) return arrive(packet);
  hop_of(packet.target, packet.hop);
  seen_[key(packet.number, packet.hop)] = {packet.at, packet.target,
                                           packet.tag.event == Event::data};
}

FlowReport::Hop& FlowLife::hop_of(uint32_t port, uint32_t distance) {
  HopCount& count = hops_[port];
  count.hop.port = port;
  count.distance = std::min(count.distance, distance);
  return count.hop;
}

// The packet has passed the port where it was seen last.
void FlowLife::leave(const Packet& packet, const Seen& seen) {
  FlowReport::Hop& hop = hop_of(seen.port, packet.hop - 1u);
  if (packet.tag.event == Event::trimmed) {
    hop.trimmed += seen.whole;
    return;
  }
  const fabric::Port& port = fabric_.ports()[seen.port];
  const int64_t waited = packet.at - seen.at - port.time_of[packet.bytes] - port.delay;
  const double ns = static_cast<double>(std::max<int64_t>(0, waited)) / 1000;
  ++hop.packets;
  hop.queued_ns += ns;
  hop.most_ns = std::max(hop.most_ns, ns);
}

void FlowLife::arrive(const Packet& packet) {
  if (packet.tag.event == Event::trimmed) return;
  ++report_.data_arrived;
  report_.marked += packet.tag.marked;
  report_.last_ns = packet.at / 1000;
  if (report_.first_ns < 0) report_.first_ns = report_.begin_ns = report_.last_ns;
  add_to_bins(report_.last_ns, packet.bytes);
  const auto since = in_network_.find(packet.number);
  if (since == in_network_.end()) return;  // a duplicate whose other copy has arrived
  const double delay = static_cast<double>(packet.at - since->second) / 1000;
  in_network_.erase(since);
  delays_ns_ += delay;
  report_.least_delay_ns = timed_ == 0 ? delay : std::min(report_.least_delay_ns, delay);
  report_.most_delay_ns = std::max(report_.most_delay_ns, delay);
  ++timed_;
}

// The interval doubles when the time does not fit.
void FlowLife::add_to_bins(int64_t at_ns, uint32_t bytes) {
  constexpr int64_t kFirstInterval = 1000;
  std::vector<uint64_t>& bins = report_.arrived_bytes;
  if (report_.interval_ns == 0) report_.interval_ns = kFirstInterval;
  while ((at_ns - report_.begin_ns) / report_.interval_ns >= static_cast<int64_t>(kMostBins)) {
    for (size_t i = 0; i < bins.size(); ++i) {
      const uint64_t value = std::exchange(bins[i], 0);
      bins[i / 2] += value;
    }
    bins.resize((bins.size() + 1) / 2);
    report_.interval_ns *= 2;
  }
  const auto bin = static_cast<size_t>((at_ns - report_.begin_ns) / report_.interval_ns);
  if (bins.size() <= bin) bins.resize(bin + 1);
  bins[bin] += bytes;
}

void FlowLife::dropped(const Packet& packet) {
  if (packet.flow != flow_ || packet.tag.event != Event::data) return;
  // A NIC's own link may lose what was never seen.
  const auto seen = seen_.find(key(packet.number, packet.hop));
  if (seen == seen_.end()) {
    ++hop_of(topology_.ports_of(source_)[0], 0).dropped;
    return;
  }
  ++hop_of(seen->second.port, packet.hop).dropped;
  seen_.erase(seen);
}

int64_t FlowLife::paused_ns(uint32_t port) const {
  int64_t sum = 0;
  for (const Pause& pause : pauses_) {
    if (pause.port != port) continue;
    const int64_t end = pause.end < 0 ? ended_ : std::min(pause.end, ended_);
    sum += std::max<int64_t>(0, end - std::max(pause.begin, begun_));
  }
  return sum / 1000;
}

FlowReport FlowLife::report() const {
  FlowReport report = report_;
  if (timed_ > 0) report.mean_delay_ns = delays_ns_ / static_cast<double>(timed_);
  std::vector<HopCount> hops;
  for (const auto& [port, count] : hops_) hops.push_back(count);
  // Its NIC may be paused, too.
  const uint32_t nic = topology_.ports_of(source_)[0];
  if (hops_.count(nic) == 0 && paused_ns(nic) > 0)
    hops.push_back({.hop = {.port = nic}, .distance = 0});
  std::stable_sort(hops.begin(), hops.end(),
                   [](const HopCount& a, const HopCount& b) { return a.distance < b.distance; });
  for (HopCount& count : hops) {
    count.hop.paused_ns = paused_ns(count.hop.port);
    report.hops.push_back(count.hop);
  }
  return report;
}

}  // namespace weft::sim::flow
