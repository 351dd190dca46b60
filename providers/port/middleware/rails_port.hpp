// SPDX-License-Identifier: BSD-3-Clause
// Several ports as one: a device with several addresses. The first port's address is the device's;
// a frame leaves through the port whose address is its source. Receives from all, waits for all.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/transport/port.hpp"

namespace weft::middleware {

class RailsPort final : public transport::Port {
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
    return rails_[rail].port->source_port(wanted, 0);
  }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  void attach(void* base, size_t size) noexcept override;
  void detach(void* base, size_t size) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void finish_wait() noexcept override;
  // Reports port_error when all ports are down, and port_active when one of them comes up again.
  int async_event_fd() const noexcept override { return event_epoll_; }
  std::optional<EventType> next_event() noexcept override;
  // Those of the ports, added up by name.
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  struct Rail {
    std::unique_ptr<transport::Port> port;
    size_t lent = 0;  // frames of it that are not released yet
    bool down = false;
  };
  RailsPort(std::vector<std::unique_ptr<transport::Port>> ports, QpnRange range);
  bool all_down() const noexcept;
  size_t rail_of(const transport::TxFrame& frame) const noexcept;

  std::vector<Rail> rails_;
  std::vector<Gid> addresses_;
  transport::Capabilities capabilities_;
  QpnRange range_;
  int event_epoll_ = -1;  // epoll of the rails' event fds; -1: no rail has one
  size_t turn_ = 0;       // which one is received from first
  size_t blocked_ = 0;    // which one took less than it was given
};

}  // namespace weft::middleware
