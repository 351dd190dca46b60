// SPDX-License-Identifier: BSD-3-Clause
// Several ports of one kind as one: a device with several addresses. The first port's address is
// the device's; a frame leaves through the port whose address is its source.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "providers/port/middleware/port_bundle.hpp"

namespace weft::middleware {

class RailsPort final : public PortBundle {
 public:
  // At least one port, of one kind. Errors: invalid_argument, with what does not go together.
  static Result<std::unique_ptr<transport::Port>> bundle(
      std::vector<std::unique_ptr<transport::Port>> ports);

  ~RailsPort() override;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return addresses_[0]; }
  std::span<const Gid> further_addresses() const noexcept override {
    return std::span(addresses_).subspan(1);
  }
  // What reaches all of them.
  QpnRange qpn_range() const noexcept override { return range_; }
  uint16_t source_port(uint16_t wanted, uint32_t rail) noexcept override {
    return port(rail).source_port(wanted, 0);
  }
  // Reports port_error when all ports are down, and port_active when one of them comes up again.
  int async_event_fd() const noexcept override { return event_epoll_; }
  std::optional<EventType> next_event() noexcept override;

 private:
  RailsPort(std::vector<std::unique_ptr<transport::Port>> ports, QpnRange range);
  bool all_down() const noexcept;
  size_t port_of(const transport::TxFrame& frame) const noexcept override;

  std::vector<Gid> addresses_;
  std::vector<uint8_t> down_;  // 1: that port's link is
  transport::Capabilities capabilities_;
  QpnRange range_;
  int event_epoll_ = -1;  // epoll of the rails' event fds; -1: no rail has one
};

}  // namespace weft::middleware
