// SPDX-License-Identifier: BSD-3-Clause
// The base of the ports of simulated hosts: capabilities, and memory for payload of which only the
// length is simulated.
#pragma once

#include <vector>

#include "lib/transport/port.hpp"

namespace weft::sim::engines {

// Source of payload whose bytes are not simulated.
class AbsentMemory final : public transport::RemoteMemory {
 public:
  bool pull(void*, uint64_t, size_t) noexcept override { return true; }
};

// The address of a host's port, and back.
Gid address_of(uint32_t node) noexcept;
uint32_t node_of(const Gid& address) noexcept;

// A NIC without a queue: it accepts a frame when the link is idle, so that the engine decides as
// late as possible what to send. Frames are never corrupted here, so they have no ICRC.
class NicPort : public transport::Port {
 public:
  explicit NicPort(uint32_t node);

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return address_; }

  // True if transmit() accepts a frame.
  virtual bool has_room() const noexcept = 0;
  // True if send_held() has a frame to send when the link is idle.
  virtual bool has_held() const noexcept { return false; }
  // Sends a frame that was held by a PAUSE, if it may leave now. True if it was sent.
  virtual bool send_held() { return false; }

 protected:
  const Gid address_;
  transport::Capabilities capabilities_;
  AbsentMemory absent_memory_;
};

}  // namespace weft::sim::engines
