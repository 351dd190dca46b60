// SPDX-License-Identifier: BSD-3-Clause
// A controller with what it costs on the wire and needs from switches: header and acknowledgement
// sizes, the class of acknowledgements, marking thresholds, telemetry. Two controllers are compared
// as their papers and the reference runs had them, each with its own scheme (HPCC simulator).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/congestion/path_policy.hpp"
#include "lib/congestion/registry.hpp"
#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/scheme/parameters.hpp"
#include "weft/result.hpp"

namespace weft::sim::flow {

struct Scheme {
  std::string name;                         // canonical: "hpcc", "dcqcn-hpccsim+win"
  std::vector<congestion::Preset> presets;  // one per NIC rate
  std::vector<uint32_t> preset_of_node;     // by node
  const congestion::Kind* kind = nullptr;
  uint32_t payload = 0;        // of a full packet
  uint32_t header = 0;         // of a data packet, without telemetry
  uint32_t data_overhead = 0;  // header and telemetry
  uint32_t ack_bytes = 0;
  bool ack_control = false;        // acknowledgements in class 0, else in that of data
  bool acks_ignore_pause = false;  // a PAUSE of data does not stop them at the hosts
  int64_t cnp_interval_ps = 0;     // 0: in the acknowledgement of each marked packet
  int64_t timeout_ps = 0;          // retransmission, for networks that drop
  uint32_t ack_every_bytes = 0;    // sprayed: an acknowledgement for so many bytes on the wire
  congestion::PathRules paths;     // sprayed
  bool whole_ns = false;
  double base_rtt_ns = 0;  // T
  fabric::Settings fabric;

  // Each packet of a flow takes a path of its own: the hosts of lib/sim/hosts/light_spray.
  bool sprayed() const noexcept { return kind->sprayed || srd; }
  // Switches may drop packets: hosts need a retransmission timeout.
  bool drops() const noexcept { return !fabric.pfc || fabric.discipline != nullptr; }
  // The hosts run the engine: those of lib/sim/hosts/engine.
  bool engines = false;
  bool srd = false;  // the SRD engine, whatever the controller
  // What sends all data in one class, or "".
  std::string of_one_class() const {
    if (fabric.discipline != nullptr) return "with switch.discipline hosts";
    if (engines) return "engines";
    return sprayed() ? name : "";
  }
};

// Fails on an unknown controller, or on parameters that do not fit together.
Result<Scheme> make_scheme(std::string_view controller, const Parameters& parameters,
                           const fabric::Topology& topology);
// The same with a kind that need not be registered, and that the scheme must not outlive.
Result<Scheme> make_scheme(const congestion::Kind& kind, bool with_window,
                           const Parameters& parameters, const fabric::Topology& topology);

// The unloaded RTT of two hosts as the ideal FCT counts it: twice the delays, and one payload
// without header at the rate of each link (HPCC simulator).
int64_t unloaded_rtt_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                        uint32_t payload);
// T: the largest unloaded RTT of the network.
int64_t largest_rtt_ns(const fabric::Topology& topology, uint32_t payload);
// A shortest path between two hosts, as ports.
std::vector<uint32_t> some_path(const fabric::Topology& topology, uint32_t src, uint32_t dst);

}  // namespace weft::sim::flow
