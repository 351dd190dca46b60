// SPDX-License-Identifier: BSD-3-Clause
// Several ports as one: receives from all, waits for all, and sends each frame through the one that
// a derived class names.
#pragma once

#include <memory>
#include <vector>

#include "lib/transport/port.hpp"

namespace weft::middleware {

class PortBundle : public transport::Port {
 public:
  ~PortBundle() override;
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  // Frames keep their order, so one port that takes no more holds up the others.
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  void report_lost_peers(transport::LostPeers& lost) override;
  void ask(const transport::Path& path, std::span<const std::byte> datagram) noexcept override;
  std::optional<uint64_t> unread(const Gid& destination, QpNum number,
                                 bool in_memory) noexcept override;
  void attach(void* base, size_t size) noexcept override;
  void detach(void* base, size_t size) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void finish_wait() noexcept override;
  // Those of the ports, added up by name.
  void append_counters(std::vector<Counter>& counters) const override;

 protected:
  // At least one port. They are closed in this order.
  explicit PortBundle(std::vector<std::unique_ptr<transport::Port>> ports);
  // Which port sends the frame. Frames with equal paths have the same.
  virtual size_t port_of(const transport::TxFrame& frame) const noexcept = 0;
  // Whether the port is asked in this receive().
  virtual bool polls(size_t port) noexcept { return (void)port, true; }

  size_t port_count() const noexcept { return members_.size(); }
  transport::Port& port(size_t i) noexcept { return *members_[i].port; }
  const transport::Port& port(size_t i) const noexcept { return *members_[i].port; }
  // Frames that the last receive() got from the port.
  size_t lent(size_t i) const noexcept { return members_[i].lent; }

 private:
  struct Member {
    std::unique_ptr<transport::Port> port;
    size_t lent = 0;  // frames of it that are not released yet
  };
  std::vector<Member> members_;
  size_t turn_ = 0;     // which one is received from first
  size_t blocked_ = 0;  // which one took less than it was given
};

}  // namespace weft::middleware
