// SPDX-License-Identifier: BSD-3-Clause
// A port over a host of the simulated network. Addresses are the network's, time is virtual: no
// thread sleeps on it, the simulation calls when a frame arrives.
#pragma once

#include <vector>

#include "lib/sim/frames/network.hpp"
#include "lib/transport/port.hpp"

namespace weft::port {

// Default capabilities of a simulated port: a plain RoCEv2 NIC, without trains.
transport::Capabilities sim_capabilities();

class SimPort final : public transport::Port {
 public:
  explicit SimPort(sim::Host& host,
                   const transport::Capabilities& capabilities = sim_capabilities())
      : host_(host), capabilities_(capabilities) {}
  ~SimPort() override;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return host_.address(); }
  Result<void> join(const Gid& group) override {
    host_.join(group);
    return {};
  }
  void leave(const Gid& group) noexcept override { host_.leave(group); }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  // Short when the link's queue is full. Frames without a route are dropped and counted.
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  // False if a frame waits, or is to be sent: there are no descriptors.
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void append_counters(std::vector<Counter>& counters) const override;

  // Hides the IP identification, as kernel sockets do: the receiver has 16 bits of check left.
  void hide_ip_id(bool on) noexcept { hides_ip_id_ = on; }

 private:
  sim::Host& host_;
  transport::Capabilities capabilities_;
  sim::PacketQueue lent_;
  bool hides_ip_id_ = false;
  uint64_t no_route_ = 0;
  uint64_t too_long_ = 0;
};

}  // namespace weft::port
