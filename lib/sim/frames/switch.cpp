// SPDX-License-Identifier: BSD-3-Clause
// The star of fabric/ around real frames. Host i is node i, the switch the node behind them; the
// port from host i is 2i, the port to it 2i + 1. A marker event at the present keeps the wheel from
// advancing beyond it: frames that come in later would lie before the wheel's position.
#include "lib/sim/frames/switch.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/frames/network.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::sim {

namespace {

using fabric::Event;

fabric::Settings settings_of(const SwitchOptions& options) {
  constexpr double kBytesPerMicrosecond = 125;  // of a Gb/s
  fabric::Settings settings;
  settings.whole_ns = false;
  settings.largest_packet = Packet::kCapacity + kWireOverhead;
  settings.buffer = options.buffer;
  settings.pfc = false;
  settings.threshold_shift = options.threshold_shift;
  settings.kmin_bytes_per_gbps = options.kmin_us * kBytesPerMicrosecond;
  settings.kmax_bytes_per_gbps = options.kmax_us * kBytesPerMicrosecond;
  settings.pmax = options.pmax;
  if (options.telemetry) settings.telemetry.mode = fabric::Telemetry::records;
  return settings;
}

// The full value of a counter of which `low` is the low half, taken shortly before it was `now`.
uint64_t widen(uint32_t low, uint64_t now) noexcept {
  return now - static_cast<uint32_t>(static_cast<uint32_t>(now) - low);
}

}  // namespace

Result<std::unique_ptr<Switch>> Switch::make(const SwitchOptions& options, PacketPool& pool,
                                             Instant start) {
  if (options.mbps.size() < 2)
    return Error{Code::invalid_argument, "a switch needs at least two ports"};
  std::vector<fabric::Cable> cables;
  const auto hosts = static_cast<uint32_t>(options.mbps.size());
  for (uint32_t i = 0; i < hosts; ++i) {
    if (options.mbps[i] == 0) return Error{Code::invalid_argument, "a port has a rate of 0"};
    cables.push_back({i, hosts, options.mbps[i], options.delay.ns()});
  }
  Result<fabric::Topology> topology = fabric::Topology::make(std::move(cables));
  if (!topology) return topology.error();
  return std::unique_ptr<Switch>(new Switch(options, std::move(*topology), pool, start));
}

Switch::Switch(const SwitchOptions& options, fabric::Topology topology, PacketPool& pool,
               Instant start)
    : options_(options),
      start_(start),
      topology_(std::move(topology)),
      wheel_(chunks_),
      routes_(topology_, options.seed),
      spray_{fabric::SprayRoutes(topology_, options.seed), {}},
      random_(options.seed),
      fabric_(topology_, settings_of(options_), wheel_, chunks_, routes_, telemetry_, spray_,
              random_),
      pool_(pool),
      faults_(options.mbps.size()),
      meters_(options.mbps.size()) {}

int64_t Switch::time_of(Instant now) const noexcept {
  return std::max((now - start_).ps, wheel_.now());
}

uint32_t Switch::store(Packet* packet) {
  ++inside_;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.push_back(nullptr);
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  frames_[slot] = packet;
  return slot;
}

Packet* Switch::remove(uint32_t slot) {
  WEFT_DCHECK(inside_ > 0 && slot < frames_.size() && frames_[slot] != nullptr);
  --inside_;
  free_.push_back(slot);
  return frames_[slot];
}

void Switch::trim(Packet& packet) noexcept {
  packet.length = std::min(packet.length, kTrimmed);
  packet.path.traffic_class = wire::kTrimmedLastHopDscp << 2;
}

void Switch::receive(uint32_t in, uint32_t out, Packet* packet, Instant now) {
  WEFT_DCHECK(in < ports() && out < ports());
  ++counters_.frames;
  const SwitchFault& fault = faults_[out];
  if (fault.blackhole || (fault.loss_ppm != 0 && random_.chance_ppm(fault.loss_ppm))) {
    ++counters_.faulted;
    return pool_.give(packet);
  }
  if (fault.trim_ppm != 0 && random_.chance_ppm(fault.trim_ppm)) {
    ++counters_.trimmed;
    trim(*packet);
  }
  const uint32_t slot = store(packet);
  fabric::Packet& p = wheel_.place(time_of(now) + options_.delay.ps + fault.delay.ps);
  p = {};
  p.at = time_of(now) + options_.delay.ps + fault.delay.ps;
  p.target = 2 * out + 1;
  p.ingress = 2 * in + 1;
  p.flow = slot;
  p.stamp = options_.telemetry ? telemetry_.take(0) : 0;
  p.bytes = static_cast<uint16_t>(packet->length + kWireOverhead);
}

void Switch::run(Instant now) {
  wheel_.plan(time_of(now), Event::flow_timer, 0);
  while (wheel_.ready()) {
    fabric::Packet packet = wheel_.pop();
    switch (packet.tag.event) {
      case Event::flow_timer:
        return;
      case Event::port_free:
        fabric_.port_free(packet.target);
        break;
      default:
        packet.tag.at_host ? deliver(packet) : forward(packet);
        break;
    }
  }
}

void Switch::forward(fabric::Packet& packet) {
  const uint64_t dropped = fabric_.counters().dropped;
  fabric_.forward(packet);
  if (fabric_.counters().dropped == dropped) return;
  ++counters_.dropped;
  pool_.give(remove(packet.flow));
}

void Switch::deliver(const fabric::Packet& packet) {
  Packet* const frame = remove(packet.flow);
  ++counters_.left;
  const bool capable = frame->ecn == 1 || frame->ecn == 2;
  if (packet.tag.marked && capable) {
    ++counters_.marked;
    frame->ecn = 3;
  }
  if (options_.telemetry) stamp(*frame, packet);
  departed_.push(frame);
}

// Frames leave a port in the order in which their records were made.
void Switch::stamp(Packet& frame, const fabric::Packet& packet) {
  const fabric::TelemetryBlock& block = telemetry_[packet.stamp];
  const uint64_t sent = fabric_.port(packet.ingress ^ 1).sent_bytes;
  const auto now_ns = static_cast<uint64_t>(wheel_.now() / 1000);
  for (uint32_t i = 0; i < block.count; ++i) {
    const congestion::IntHop& hop = block.hops[i];
    uint8_t digest = 0;
    if (options_.digest_rtt.ps > 0) {
      const double draw = static_cast<double>(random_.next() >> 11) * 0x1p-53;
      const double rtt_ns = static_cast<double>(options_.digest_rtt.ps) / 1000;
      digest = congestion::encode_digest(meters_[packet.ingress / 2].pass(hop, rtt_ns), draw);
    }
    if (frame.path.destination_port == wire::kSrdUdpPort)
      wire::raise_srd_digest(frame.bytes, frame.length, digest);
    if (frame.path.destination_port != wire::kIntUdpPort) continue;
    wire::stamp_int(
        frame.bytes, frame.length, options_.number,
        {hop.rate_mbps, widen(hop.time_ns, now_ns), widen(hop.sent_bytes, sent), hop.queue_bytes},
        digest);
  }
  telemetry_.give(packet.stamp);
}

}  // namespace weft::sim
