// SPDX-License-Identifier: BSD-3-Clause
// The port of a host with an SRD engine: its frames become sprayed packets and back. What a packet
// belongs to is a pair of hosts, all that goes from one to the other; its entropy value is the UDP
// source port that the engine chose. A packet that a switch has cut comes with its headers only.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/hosts/engine/nic_port.hpp"
#include "lib/sim/scheme/scheme.hpp"

namespace weft::sim::engines {

// A frame in flight: its headers as the engine wrote them, and the length of its payload.
struct alignas(64) SprayFrame {
  static constexpr size_t kMost = 192;  // an acknowledgement with all words of its bitmap
  transport::Path path;
  uint32_t length = 0;   // of the headers
  uint32_t payload = 0;  // bytes
  std::array<std::byte, kMost> bytes;
};

// What the ports of all hosts share.
struct SprayWiring {
  struct Pair {
    uint32_t src, dst;
  };

  const flow::Scheme& scheme;
  fabric::EventWheel& wheel;
  fabric::Fabric& fabric;
  fabric::SprayRoutes& routes;
  fabric::BlockPool<SprayFrame> frames;
  std::vector<Pair> pairs;  // by Packet::flow
  std::unordered_map<uint64_t, uint32_t> numbers;

  // The number of a pair; it gets one when it is first asked for.
  uint32_t pair_of(uint32_t src, uint32_t dst);
};

class SprayPort final : public NicPort {
 public:
  // Sends through port `number` of the fabric, that of host `node`.
  SprayPort(SprayWiring& wiring, uint32_t node, uint32_t number);

  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return arrived_.empty(); }
  bool has_room() const noexcept override;

  // A packet is here.
  void arrive(const fabric::Packet& packet) { arrived_.push_back(packet); }

 private:
  fabric::Packet pack(const transport::TxFrame& frame);

  SprayWiring& wiring_;
  const uint32_t node_;
  const uint32_t number_;
  const bool digests_;                   // switches write them
  std::vector<fabric::Packet> arrived_;  // not fetched yet
};

}  // namespace weft::sim::engines
