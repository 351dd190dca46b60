// SPDX-License-Identifier: BSD-3-Clause
// The port of a host with a RoCE engine: its frames become packets of the fabric and back. While
// data is paused (PFC) it holds a few data frames, so that acknowledgements of class 0 can pass.
// Payload is a length: its memory is not read at the sender nor written at the receiver.
#pragma once

#include <vector>

#include "lib/sim/hosts/engine/nic_port.hpp"
#include "lib/sim/hosts/engine/wiring.hpp"

namespace weft::sim::engines {

class FabricPort final : public NicPort {
 public:
  // Sends through port `number` of the fabric, that of host `node`.
  FabricPort(Wiring& wiring, uint32_t node, uint32_t number);

  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return arrived_.empty(); }

  // A packet has arrived. False: it belongs to a flow that is done, and was dropped.
  bool arrive(const fabric::Packet& packet);
  bool send_held() override;
  bool has_room() const noexcept override;
  bool has_held() const noexcept override;

 private:
  bool records() const noexcept;  // switches write records, not a digest
  fabric::Packet pack(const transport::TxFrame& frame);
  void put_telemetry(const fabric::Packet& packet, StoredFrame& frame);

  Wiring& wiring_;
  const uint32_t number_;
  std::vector<fabric::Packet> arrived_;  // until receive()
};

}  // namespace weft::sim::engines
