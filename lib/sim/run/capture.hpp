// SPDX-License-Identifier: BSD-3-Clause
// A capture file of chosen flows. The simulator has lengths only, so each packet that reaches its
// host is written as the RoCEv2 frame that an RC queue pair would have sent for it: a flow is one
// WRITE of its bytes (zeros) on a queue pair of its own, packet numbers are PSNs. Lengths are those
// of RoCEv2 (the scenario's header and telemetry bytes are not on show), times are of arrival.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/sim/fabric/routes.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/scheme/scheme.hpp"
#include "lib/wire/pcap_file.hpp"
#include "weft/result.hpp"

namespace weft::sim::flow {

class Capture {
 public:
  // `flows`: which; empty: all. Fails where flows are no queue pairs of RoCEv2, or the file cannot
  // be written.
  static Result<Capture> open(const std::string& file, const Scheme& scheme,
                              std::span<const FlowSpec> specs, const fabric::RouteTable& routes,
                              std::span<const uint32_t> flows);

  // A packet is at its end. A CNP that an acknowledgement carries is a frame of its own.
  void arrived(const fabric::Packet& packet);

 private:
  Capture(wire::PcapWriter writer, const Scheme& scheme, std::span<const FlowSpec> specs,
          const fabric::RouteTable& routes, std::vector<bool> chosen);
  uint32_t make_data(const fabric::Packet& packet);
  uint32_t make_answer(const fabric::Packet& packet);
  void write(const fabric::Packet& packet, uint32_t length);

  wire::PcapWriter writer_;
  const Scheme* scheme_;
  std::span<const FlowSpec> specs_;
  const fabric::RouteTable* routes_;
  std::vector<bool> chosen_;      // by flow
  std::vector<std::byte> frame_;  // BTH to ICRC
};

}  // namespace weft::sim::flow
