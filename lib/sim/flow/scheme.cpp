// SPDX-License-Identifier: BSD-3-Clause
// What each controller has on the wire, from facts section 6.1 b, c and f.
#include "lib/sim/flow/scheme.hpp"

#include <algorithm>

namespace weft::sim::flow {
namespace {

using congestion::Signal;

// Acknowledgements in class 0 (strictly first, never paused) or in class 3 beside data: as the
// reference runs had it, by controller (facts 6.1 c).
bool acks_in_control(const congestion::Kind& kind, bool windowed, const Parameters& parameters) {
  if (!parameters.is_auto(Net::ack_class)) return parameters[Net::ack_class] == 0;
  if (kind.signal == Signal::delay) return true;
  return !windowed || kind.name == "none";
}

uint32_t telemetry_bytes(Signal signal, const Parameters& parameters) {
  switch (signal) {
    case Signal::telemetry:
      return static_cast<uint32_t>(parameters[Net::int_bytes]);
    case Signal::delay:
      return static_cast<uint32_t>(parameters[Net::stamp_bytes]);
    case Signal::digest:
      return static_cast<uint32_t>(parameters[Net::digest_bytes]);
    case Signal::none:
    case Signal::ecn:
      return 0;
  }
  return 0;
}

// Thresholds per Gb/s of the port: 100 KB and 400 KB per 25G, Pmax 0.2; DCTCP steps at 30 KB per
// 10G (HPCC section 5.1).
void set_marking(fabric::Settings& fabric, const congestion::Kind& kind,
                 const Parameters& parameters) {
  const bool step = kind.name == "dctcp";
  const auto value = [&](Net key, double usual, double stepped) {
    return parameters.is_auto(key) ? (step ? stepped : usual) : parameters[key];
  };
  fabric.kmin_bytes_per_gbps = value(Net::kmin, 4000, 3000);
  fabric.kmax_bytes_per_gbps = value(Net::kmax, 16000, 3000);
  fabric.pmax = value(Net::pmax, 0.2, 1);
}

fabric::Settings make_fabric(const Scheme& scheme, const Parameters& parameters,
                             const fabric::Topology& topology) {
  fabric::Settings fabric;
  fabric.whole_ns = scheme.whole_ns;
  fabric.buffer = static_cast<uint64_t>(parameters[Net::buffer_mb] * 1024 * 1024);
  fabric.reserve = static_cast<uint32_t>(parameters[Net::reserve]);
  fabric.headroom_factor = parameters[Net::headroom_factor];
  fabric.pfc = parameters[Net::pfc] != 0;
  fabric.pause_shift = static_cast<uint32_t>(parameters[Net::pause_shift]);
  fabric.resume_offset = static_cast<uint32_t>(parameters[Net::resume]);
  fabric.pause_bytes = static_cast<uint32_t>(parameters[Net::pause_bytes]);
  fabric.largest_packet =
      std::max({scheme.payload + scheme.data_overhead, scheme.ack_bytes, fabric.pause_bytes});
  set_marking(fabric, *scheme.kind, parameters);
  fabric::TelemetrySettings& telemetry = fabric.telemetry;
  telemetry.base_rtt_ns = scheme.base_rtt_ns;
  if (scheme.kind->signal == Signal::digest) telemetry.mode = fabric::Telemetry::digest;
  if (scheme.kind->signal == Signal::telemetry) telemetry.mode = fabric::Telemetry::records;
  const double scale = parameters.is_auto(Net::int_scale) ? topology.nic_mbps() / 25000.0
                                                          : parameters[Net::int_scale];
  telemetry.sent_step = std::max(1u, static_cast<uint32_t>(parameters[Net::int_sent_step] * scale));
  telemetry.queue_step =
      std::max(1u, static_cast<uint32_t>(parameters[Net::int_queue_step] * scale));
  return fabric;
}

// One preset per NIC rate; every host knows its own.
Result<void> make_presets(Scheme& scheme, const Parameters& parameters,
                          const fabric::Topology& topology) {
  std::vector<congestion::Setting> settings;
  for (const Parameters::ControllerSetting& s : parameters.controllers())
    if (s.kind == scheme.kind->name) settings.push_back({s.parameter, s.value});
  std::vector<uint32_t> rates;
  scheme.preset_of_node.assign(topology.node_count(), 0);
  for (const uint32_t host : topology.hosts()) {
    const uint32_t mbps = topology.mbps(topology.ports_of(host)[0]);
    const auto found = std::find(rates.begin(), rates.end(), mbps);
    scheme.preset_of_node[host] = static_cast<uint32_t>(found - rates.begin());
    if (found != rates.end()) continue;
    rates.push_back(mbps);
    const congestion::Conditions conditions{
        .line = Rate{int64_t{mbps} * 1'000'000},
        .rtt = Duration{static_cast<int64_t>(scheme.base_rtt_ns * 1000)},
        .network = Rate{int64_t{topology.nic_mbps()} * 1'000'000}};
    Result<congestion::Preset> preset = congestion::make_preset(scheme.name, conditions, settings);
    if (!preset) return preset.error();
    scheme.presets.push_back(*preset);
  }
  return {};
}

int64_t cnp_interval_ps(const congestion::Preset& preset) {
  for (size_t i = 0; i < preset.kind->parameters.size(); ++i)
    if (preset.kind->parameters[i].name == "cnp_interval_us")
      return static_cast<int64_t>(preset[i] * 1e6);
  return 0;
}

}  // namespace

int64_t unloaded_rtt_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                        uint32_t payload) {
  int64_t rtt = 0;
  for (const uint32_t port : path)
    rtt += 2 * topology.cable(port).delay_ns + int64_t{payload} * 8000 / topology.cable(port).mbps;
  return rtt;
}

// Every leaf against every other: hosts of one leaf differ only in their own link, so the slowest
// one stands for all.
int64_t largest_rtt_ns(const fabric::Topology& topology, uint32_t payload) {
  std::vector<uint32_t> slowest(topology.node_count(), fabric::Topology::kNone);
  const auto cost = [&](uint32_t host) {
    return unloaded_rtt_ns(topology, topology.ports_of(host), payload);
  };
  std::vector<uint32_t> leaves;
  int64_t largest = 0;
  for (const uint32_t host : topology.hosts()) {
    uint32_t& best = slowest[topology.to(topology.ports_of(host)[0])];
    if (best == fabric::Topology::kNone)
      leaves.push_back(topology.to(topology.ports_of(host)[0]));
    else  // two hosts of one leaf
      largest = std::max(largest, cost(host) + cost(best));
    if (best == fabric::Topology::kNone || cost(host) > cost(best)) best = host;
  }
  for (const uint32_t from : leaves) {
    for (const uint32_t to : leaves) {
      const uint32_t src = slowest[from];
      const uint32_t dst = slowest[to];
      if (src == dst) continue;
      std::vector<uint32_t> path;
      for (uint32_t node = src; node != dst; node = topology.to(path.back()))
        path.push_back(topology.next_ports(node, dst)[0]);
      largest = std::max(largest, unloaded_rtt_ns(topology, path, payload));
    }
  }
  return largest;
}

Result<Scheme> make_scheme(std::string_view controller, const Parameters& parameters,
                           const fabric::Topology& topology) {
  Scheme scheme;
  scheme.name = controller;
  bool with_window = false;
  Result<const congestion::Kind*> kind = congestion::find_kind(controller, &with_window);
  if (!kind) return kind.error();
  scheme.kind = *kind;
  scheme.payload = static_cast<uint32_t>(parameters[Net::payload]);
  scheme.header = static_cast<uint32_t>(parameters[Net::header]);
  scheme.data_overhead = scheme.header + telemetry_bytes(scheme.kind->signal, parameters);
  scheme.ack_bytes = static_cast<uint32_t>(parameters[Net::ack]);
  if (scheme.kind->signal == Signal::telemetry)
    scheme.ack_bytes += static_cast<uint32_t>(parameters[Net::int_ack_bytes]);
  scheme.ack_control =
      acks_in_control(*scheme.kind, with_window || scheme.kind->windowed, parameters);
  scheme.timeout_ps = static_cast<int64_t>(parameters[Net::timeout] * 1e6);
  scheme.whole_ns = parameters[Net::whole_ns] != 0;
  scheme.base_rtt_ns = parameters.is_auto(Net::base_rtt)
                           ? static_cast<double>(largest_rtt_ns(topology, scheme.payload))
                           : parameters[Net::base_rtt];
  scheme.fabric = make_fabric(scheme, parameters, topology);
  Result<void> made = make_presets(scheme, parameters, topology);
  if (!made) return made.error();
  scheme.cnp_interval_ps = cnp_interval_ps(scheme.presets.front());
  return scheme;
}

}  // namespace weft::sim::flow
