// SPDX-License-Identifier: BSD-3-Clause
// The port of a simulated host: an engine's frames become packets of the fabric and back. It is a
// NIC with one queue: it takes a frame when the wire is idle, so that the engine decides at the
// last moment what goes next. While data is paused (PFC) it holds a few frames of data, so that
// acknowledgements of class 0 can pass. Payload is a length: sent from memory that nobody reads,
// received by a pull that copies nothing. No frame is damaged here, so none has an ICRC.
#pragma once

#include <vector>

#include "lib/engine/port.hpp"
#include "lib/sim/engines/wiring.hpp"

namespace weft::sim::engines {

// Payload that is nowhere.
class Nowhere final : public engine::RemoteMemory {
 public:
  bool pull(void*, uint64_t, size_t) noexcept override { return true; }
};

class FabricPort final : public engine::Port {
 public:
  // Sends through port `number` of the fabric, that of host `node`.
  FabricPort(Wiring& wiring, uint32_t node, uint32_t number);

  const engine::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return address_; }
  size_t receive(std::span<engine::Frame> frames) noexcept override;
  void release(std::span<const engine::Frame> frames) noexcept override;
  size_t transmit(std::span<const engine::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return arrived_.empty(); }

  // A packet is here. False: it belongs to a flow that is done, and was dropped.
  bool arrive(const fabric::Packet& packet);
  // Sends what waited for the end of a pause, if it may go now. True if it did.
  bool send_held();
  // May transmit() take a frame?
  bool has_room() const noexcept;
  // Is there something that send_held() will send when the wire is idle?
  bool has_held() const noexcept;

 private:
  bool records() const noexcept;  // switches write records, not a digest
  fabric::Packet pack(const engine::TxFrame& frame);
  void put_telemetry(const fabric::Packet& packet, StoredFrame& frame);

  Wiring& wiring_;
  const uint32_t number_;
  const Gid address_;
  engine::Capabilities capabilities_;
  Nowhere nowhere_;
  std::vector<fabric::Packet> arrived_;  // not fetched yet
};

}  // namespace weft::sim::engines
