// SPDX-License-Identifier: BSD-3-Clause
// The udp port: RoCEv2 frames through ordinary UDP sockets, without any privilege. `where` is "lo"
// (an own address in 127/8), an interface, or a local address literal; options: options.hpp.
#pragma once

#include <memory>

#include "lib/engine/port.hpp"
#include "providers/port/udp/group.hpp"
#include "providers/port/udp/receiver.hpp"
#include "providers/port/udp/sender.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port {

class UdpPort final : public engine::Port {
 public:
  // Takes sockets that open_udp_port made.
  UdpPort(const udp::LocalAddress& local, const udp::Options& options, udp::ReceiveSocket socket,
          std::unique_ptr<udp::AddressGroup> group, uint32_t segments);
  // Frames with telemetry come to a socket of their own.
  void add_telemetry(const udp::LocalAddress& local, udp::ReceiveSocket socket, uint32_t batch);

  const engine::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return local_.gid; }
  QpnRange qpn_range() const noexcept override;
  uint16_t source_port(uint16_t wanted) noexcept override { return sender_.source_port(wanted); }
  size_t receive(std::span<engine::Frame> frames) noexcept override;
  void release(std::span<const engine::Frame> frames) noexcept override;
  size_t transmit(std::span<const engine::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) noexcept override;
  void finish_wait() noexcept override { sender_.unblock(); }
  void append_counters(std::vector<Counter>& counters) const override;

  bool usable() const noexcept {
    return receiver_.usable() && (telemetry_ == nullptr || telemetry_->receiver.usable());
  }

 private:
  struct TelemetrySide {
    udp::ReceiveSocket socket;
    udp::Receiver receiver;
  };

  udp::LocalAddress local_;
  udp::ReceiveSocket socket_;
  std::unique_ptr<udp::AddressGroup> group_;  // null: the address is ours alone
  engine::Capabilities capabilities_;
  udp::Receiver receiver_;
  std::unique_ptr<TelemetrySide> telemetry_;  // null: none
  udp::Sender sender_;
  size_t lent_ = 0;
};

// Errors: invalid_argument (an option), not_found (no such interface or address), address_in_use,
// no_memory (slots, buffers), io_error.
Result<std::unique_ptr<engine::Port>> open_udp_port(const engine::PortOptions& options);

}  // namespace weft::port
