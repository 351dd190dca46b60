// SPDX-License-Identifier: BSD-3-Clause
// The port of a simulated host, as far as all engines have it in common: what it can do, and the
// memory behind payload that is only a length.
#pragma once

#include <vector>

#include "lib/transport/port.hpp"

namespace weft::sim::engines {

// Payload that is nowhere.
class Nowhere final : public transport::RemoteMemory {
 public:
  bool pull(void*, uint64_t, size_t) noexcept override { return true; }
};

// The address of a host's port, and back.
Gid address_of(uint32_t node) noexcept;
uint32_t node_of(const Gid& address) noexcept;

// A NIC with one queue: it takes a frame when the wire is idle, so that the engine decides at the
// last moment what goes next. No frame is damaged here, so none has an ICRC.
class NicPort : public transport::Port {
 public:
  explicit NicPort(uint32_t node);

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return address_; }

  // May transmit() take a frame?
  virtual bool has_room() const noexcept = 0;
  // Is there something that send_held() will send when the wire is idle?
  virtual bool has_held() const noexcept { return false; }
  // Sends what waited for the end of a pause, if it may go now. True if it did.
  virtual bool send_held() { return false; }

 protected:
  const Gid address_;
  transport::Capabilities capabilities_;
  Nowhere nowhere_;
};

}  // namespace weft::sim::engines
