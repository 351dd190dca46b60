// SPDX-License-Identifier: BSD-3-Clause
// What each controller has on the wire, after the HPCC authors' simulator.
#include "lib/sim/scheme/scheme.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/check.hpp"
#include "lib/srd/state/path_set.hpp"

namespace weft::sim::flow {
namespace {

using congestion::Signal;

// What "auto" is: one thing for controllers of one path, another for those that spray.
double value(const Parameters& parameters, const Scheme& scheme, Net key, double usual,
             double sprayed) {
  if (!parameters.is_auto(key)) return parameters[key];
  return scheme.sprayed() ? sprayed : usual;
}

// In switches acknowledgements share the queue of data. At the hosts they leave before data;
// whether a PAUSE of data stops them there depends on the controller (HPCC simulator: its
// ack_high_prio is a setting of hosts).
void set_ack_class(Scheme& scheme, bool windowed, const Parameters& parameters) {
  const congestion::Kind& kind = *scheme.kind;
  scheme.ack_control =
      parameters.is_auto(Net::ack_class) ? scheme.sprayed() : parameters[Net::ack_class] == 0;
  scheme.acks_ignore_pause =
      scheme.ack_control || (parameters.is_auto(Net::ack_pause)
                                 ? kind.control_acks || kind.signal == Signal::delay || !windowed
                                 : parameters[Net::ack_pause] == 0);
}

uint32_t telemetry_bytes(const Scheme& scheme, const Parameters& parameters) {
  // The sender remembers when it sent what; the digest has a byte of SRD's header.
  if (scheme.sprayed()) return 0;
  switch (scheme.kind->signal) {
    case Signal::telemetry:
      return static_cast<uint32_t>(parameters[Net::int_bytes]);
    case Signal::delay:
      return static_cast<uint32_t>(parameters[Net::stamp_bytes]);
    case Signal::digest:
      return static_cast<uint32_t>(parameters[Net::digest_bytes]);
    case Signal::none:
    case Signal::ecn:
    case Signal::credit:
      return 0;
  }
  return 0;
}

// Thresholds per Gb/s of the port, by default those that the controller names (HPCC section 5.1:
// 100 KB and 400 KB per 25G, Pmax 0.2; DCTCP steps at 30 KB per 10G).
void set_marking(fabric::Settings& fabric, const congestion::Kind& kind,
                 const Parameters& parameters) {
  const auto choose = [&](Net key, double automatic) {
    return parameters.is_auto(key) ? automatic : parameters[key];
  };
  fabric.kmin_bytes_per_gbps = choose(Net::kmin, kind.marking.kmin_bytes_per_gbps);
  fabric.kmax_bytes_per_gbps = choose(Net::kmax, kind.marking.kmax_bytes_per_gbps);
  fabric.pmax = choose(Net::pmax, kind.marking.pmax);
}

fabric::Settings make_fabric(const Scheme& scheme, const Parameters& parameters,
                             const fabric::Topology& topology) {
  fabric::Settings fabric;
  fabric.whole_ns = scheme.whole_ns;
  fabric.buffer = static_cast<uint64_t>(parameters[Net::buffer_mb] * 1024 * 1024);
  fabric.reserve = static_cast<uint32_t>(parameters[Net::reserve]);
  fabric.headroom_factor = parameters[Net::headroom_factor];
  fabric.pfc = parameters[Net::pfc] != 0;
  fabric.threshold_shift = static_cast<uint32_t>(parameters[Net::pause_shift]);
  fabric.resume_offset = static_cast<uint32_t>(parameters[Net::resume]);
  fabric.pause_bytes = static_cast<uint32_t>(parameters[Net::pause_bytes]);
  if (!parameters.is_auto(Net::pause_at)) {
    // One threshold of the whole ingress, and room for whatever comes after the pause.
    fabric.pause_at = static_cast<uint32_t>(parameters[Net::pause_at]);
    fabric.reserve = 0;
    fabric.headroom_factor = 1e9;
  }
  // What some packets of an engine have more: the first of a WRITE its RETH; of SRD, headers and a
  // bitmap of acknowledgements.
  const uint32_t more = !scheme.engines ? 0 : scheme.sprayed() ? 192 : 16;
  fabric.largest_packet =
      std::max({scheme.payload + scheme.data_overhead + more, scheme.ack_bytes, fabric.pause_bytes,
                static_cast<uint32_t>(parameters[Net::trim_bytes])});
  set_marking(fabric, *scheme.kind, parameters);
  fabric.discipline = fabric::discipline_of(static_cast<size_t>(parameters[Net::discipline]));
  for (uint32_t c = 1; c < fabric::kClasses; ++c)
    fabric.class_weights[c] =
        parameters[static_cast<Net>(static_cast<size_t>(Net::class_1) + c - 1)];
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

// Queues and thresholds of a fabric for sprayed packets, in whole packets at NIC rate, the
// retransmission timeout that follows from them, and the choice of paths, as in the UEC simulator.
void describe_spraying(Scheme& scheme, const Parameters& parameters,
                       const fabric::Topology& topology) {
  fabric::Settings& fabric = scheme.fabric;
  const double packet = scheme.payload + scheme.header;
  const double gbps = topology.nic_mbps() / 1000.0;
  const double bdp_packets = std::ceil(scheme.base_rtt_ns * gbps / 8 / packet);
  const auto choose = [&](Net key, double otherwise) {
    return parameters.is_auto(key) ? otherwise : parameters[key];
  };
  fabric.sprayed = true;
  fabric.pfc = false;
  fabric.trims = parameters[Net::trim] != 0;
  fabric.trimmed_bytes = static_cast<uint32_t>(parameters[Net::trim_bytes]);
  const double queue = choose(Net::queue, bdp_packets * (fabric.trims ? 1 : 5)) * packet;
  fabric.queue_bytes_per_gbps = queue / gbps;
  fabric.kmin_bytes_per_gbps = choose(Net::kmin, std::ceil(0.2 * bdp_packets) * packet / gbps);
  fabric.kmax_bytes_per_gbps = choose(Net::kmax, std::ceil(0.8 * bdp_packets) * packet / gbps);
  fabric.pmax = choose(Net::pmax, 1);
  fabric.marks_last_hop = choose(Net::mark_last_hop, scheme.kind->credit == nullptr) != 0;
  scheme.timeout_ps =
      static_cast<int64_t>(choose(Net::timeout, 15 + 6 * queue * 8 / gbps / 1000) * 1e6);
  scheme.ack_every_bytes =
      static_cast<uint32_t>(choose(Net::ack_every, scheme.engines ? 1 : 16384));
  scheme.paths = {.choice = static_cast<congestion::PathChoice>(parameters[Net::path_policy]),
                  .count = static_cast<uint32_t>(parameters[Net::path_count]),
                  .upper_bits = true,
                  .not_arrived = static_cast<uint8_t>(parameters[Net::nack_penalty]),
                  .freezes = fabric.trims,
                  .rtt = Duration{static_cast<int64_t>(scheme.base_rtt_ns * 1000)}};
}

// The setting names a parameter of this controller, or of one that it is composed of and whose
// parameter it has.
bool applies(const Parameters::ControllerSetting& setting, const congestion::Kind& kind) {
  if (setting.kind == kind.name) return true;
  return congestion::takes_parameters_of(kind, setting.kind) &&
         std::any_of(kind.parameters.begin(), kind.parameters.end(),
                     [&](const auto& p) { return p.name == setting.parameter; });
}

// One preset per NIC rate; every host knows its own.
Result<void> make_presets(Scheme& scheme, bool with_window, const Parameters& parameters,
                          const fabric::Topology& topology) {
  std::vector<congestion::Setting> settings;
  for (const Parameters::ControllerSetting& s : parameters.controllers())
    if (applies(s, *scheme.kind)) settings.push_back({s.parameter, s.value});
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
        .rtt = Duration{static_cast<int64_t>(scheme.base_rtt_ns * 1000 + 0.5)},
        .network = Rate{int64_t{topology.nic_mbps()} * 1'000'000},
        .packet_bytes = double(scheme.payload + scheme.header),
        .payload_bytes = double(scheme.payload),
        .drops = !scheme.fabric.trims};
    Result<congestion::Preset> preset =
        congestion::make_preset(*scheme.kind, with_window, conditions, settings);
    if (!preset) return preset.error();
    scheme.presets.push_back(*preset);
  }
  return {};
}

// What the engine can do of what the scheme asks for.
Result<void> check_engines(const Scheme& scheme, const Parameters& parameters) {
  if (!scheme.engines) return {};
  const auto refuse = [&](const std::string& why) {
    return Error{Code::not_supported, scheme.name + ": " + why};
  };
  const uint32_t mtu = scheme.payload;
  if (scheme.sprayed()) {
    if (scheme.kind->signal == Signal::telemetry)
      return refuse("SRD packets carry no record of every hop; hpcc-pint lives on their digest");
    if (mtu < 256) return refuse("with engines net.payload is 256 at least");
    if (parameters[Net::path_count] > srd::kMostPaths)
      return refuse("with engines path.evs is 256 at most");
    return {};
  }
  if (mtu < 256 || mtu > 4096 || (mtu & (mtu - 1)) != 0)
    return refuse("with engines net.payload is a path MTU: 256, 512, 1024, 2048 or 4096");
  return {};
}

// A controller that has no record of a hop does not see that hop's queue, however long.
Result<void> check_telemetry(const Scheme& scheme, size_t most_switches) {
  if (scheme.kind->signal != Signal::telemetry || most_switches <= congestion::kMaxHops) return {};
  return Error{Code::not_supported,
               scheme.name + ": packets of this network pass up to " +
                   std::to_string(most_switches) + " switches, and a packet has room for the " +
                   "telemetry of " + std::to_string(congestion::kMaxHops) +
                   "; take hpcc-pint, which needs one byte for any number, or another controller"};
}

int64_t cnp_interval_ps(const congestion::Preset& preset) {
  const size_t index = preset.kind->cnp_interval;
  return index == 0 ? 0 : static_cast<int64_t>(preset[index] * 1e6);
}

}  // namespace

int64_t unloaded_rtt_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                        uint32_t payload) {
  int64_t rtt = 0;
  for (const uint32_t port : path)
    rtt += 2 * topology.cable(port).delay_ns + int64_t{payload} * 8000 / topology.cable(port).mbps;
  return rtt;
}

std::vector<uint32_t> some_path(const fabric::Topology& topology, uint32_t src, uint32_t dst) {
  std::vector<uint32_t> path;
  for (uint32_t node = src; node != dst; node = topology.to(path.back()))
    path.push_back(topology.next_ports(node, dst)[0]);
  return path;
}

namespace {

struct Extent {
  std::vector<uint32_t> longest;  // the path with the largest unloaded RTT
  size_t most_switches = 0;       // that any path passes
};

// Every leaf against every other: hosts of one leaf differ only in their own link, so the slowest
// one stands for all.
Extent extent_of(const fabric::Topology& topology, uint32_t payload) {
  std::vector<uint32_t> slowest(topology.node_count(), fabric::Topology::kNone);
  const auto cost = [&](std::span<const uint32_t> path) {
    return unloaded_rtt_ns(topology, path, payload);
  };
  std::vector<uint32_t> leaves;
  Extent extent;
  const auto compare = [&](uint32_t src, uint32_t dst) {
    std::vector<uint32_t> path = some_path(topology, src, dst);
    WEFT_DCHECK(!path.empty());
    extent.most_switches = std::max(extent.most_switches, path.size() - 1);
    if (extent.longest.empty() || cost(path) > cost(extent.longest))
      extent.longest = std::move(path);
  };
  for (const uint32_t host : topology.hosts()) {
    const uint32_t leaf = topology.to(topology.ports_of(host)[0]);
    uint32_t& best = slowest[leaf];
    if (best == fabric::Topology::kNone)
      leaves.push_back(leaf);
    else
      compare(host, best);
    if (best == fabric::Topology::kNone ||
        cost(topology.ports_of(host)) > cost(topology.ports_of(best)))
      best = host;
  }
  for (const uint32_t from : leaves)
    for (const uint32_t to : leaves)
      if (from != to && slowest[from] != slowest[to]) compare(slowest[from], slowest[to]);
  return extent;
}

// A packet there and an acknowledgement back, exactly (UEC simulator).
double exact_rtt_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                    uint32_t bytes) {
  double rtt = 0;
  for (const uint32_t port : path)
    rtt += 2 * static_cast<double>(topology.cable(port).delay_ns) +
           bytes * 8000.0 / topology.cable(port).mbps;
  return rtt;
}

}  // namespace

int64_t largest_rtt_ns(const fabric::Topology& topology, uint32_t payload) {
  return unloaded_rtt_ns(topology, extent_of(topology, payload).longest, payload);
}

Result<Scheme> make_scheme(std::string_view controller, const Parameters& parameters,
                           const fabric::Topology& topology) {
  bool with_window = false;
  Result<const congestion::Kind*> kind = congestion::find_kind(controller, &with_window);
  if (!kind) return kind.error();
  return make_scheme(**kind, with_window, parameters, topology);
}

Result<Scheme> make_scheme(const congestion::Kind& kind, bool with_window,
                           const Parameters& parameters, const fabric::Topology& topology) {
  Scheme scheme;
  scheme.name = congestion::full_name(kind, with_window);
  scheme.kind = &kind;
  const auto number = [&](Net key, double usual, double sprayed) {
    return value(parameters, scheme, key, usual, sprayed);
  };
  scheme.engines = parameters[Net::fidelity] != 0;
  scheme.srd = parameters[Net::fidelity] == 2;
  scheme.payload = static_cast<uint32_t>(number(Net::payload, scheme.engines ? 1024 : 1000, 4086));
  if (Result<void> able = check_engines(scheme, parameters); !able) return able.error();
  // What SRD has on an Ethernet link: 46 below UDP, its base header and its trailer.
  scheme.header = static_cast<uint32_t>(number(Net::header, 48, scheme.engines ? 78 : 64));
  scheme.data_overhead = scheme.header + telemetry_bytes(scheme, parameters);
  scheme.ack_bytes = static_cast<uint32_t>(number(Net::ack, 60, scheme.engines ? 110 : 64));
  if (scheme.kind->signal == Signal::telemetry)
    scheme.ack_bytes += static_cast<uint32_t>(parameters[Net::int_ack_bytes]);
  set_ack_class(scheme, with_window || scheme.kind->windowed, parameters);
  scheme.timeout_ps = static_cast<int64_t>(number(Net::timeout, 500, 0) * 1e6);
  scheme.whole_ns = parameters[Net::whole_ns] != 0;
  const auto [longest, most_switches] = extent_of(topology, scheme.payload);
  if (Result<void> able = check_telemetry(scheme, most_switches); !able) return able.error();
  scheme.base_rtt_ns =
      number(Net::base_rtt, static_cast<double>(unloaded_rtt_ns(topology, longest, scheme.payload)),
             exact_rtt_ns(topology, longest, scheme.payload + scheme.header + scheme.ack_bytes));
  scheme.fabric = make_fabric(scheme, parameters, topology);
  if (scheme.sprayed()) describe_spraying(scheme, parameters, topology);
  Result<void> made = make_presets(scheme, with_window, parameters, topology);
  if (!made) return made.error();
  scheme.cnp_interval_ps = cnp_interval_ps(scheme.presets.front());
  return scheme;
}

}  // namespace weft::sim::flow
