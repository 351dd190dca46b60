// SPDX-License-Identifier: BSD-3-Clause
// A port that is the port inside it: middleware overrides what it does otherwise.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lib/transport/port.hpp"

namespace weft::middleware {

class WrappingPort : public transport::Port {
 public:
  explicit WrappingPort(std::unique_ptr<transport::Port> inner) : inner_(std::move(inner)) {}

  const transport::Capabilities& capabilities() const noexcept override {
    return inner_->capabilities();
  }
  Gid address() const noexcept override { return inner_->address(); }
  QpnRange qpn_range() const noexcept override { return inner_->qpn_range(); }
  std::span<const Gid> further_addresses() const noexcept override {
    return inner_->further_addresses();
  }
  uint16_t source_port(uint16_t wanted, uint32_t rail) noexcept override {
    return inner_->source_port(wanted, rail);
  }
  Result<void> join(const Gid& group) override { return inner_->join(group); }
  void leave(const Gid& group) noexcept override { inner_->leave(group); }
  void open_general_services() override { inner_->open_general_services(); }
  Result<void> claim_service(uint64_t service) override { return inner_->claim_service(service); }
  void release_service(uint64_t service) override { inner_->release_service(service); }
  void report_lost_peers(transport::LostPeers& lost) override { inner_->report_lost_peers(lost); }
  void ask(const transport::Path& path, std::span<const std::byte> datagram) noexcept override {
    inner_->ask(path, datagram);
  }
  std::optional<uint64_t> unread(const Gid& destination, QpNum number,
                                 bool in_memory) noexcept override {
    return inner_->unread(destination, number, in_memory);
  }
  void forget(QpNum number) noexcept override { inner_->forget(number); }
  size_t receive(std::span<transport::Frame> frames) noexcept override {
    return inner_->receive(frames);
  }
  void release(std::span<const transport::Frame> frames) noexcept override {
    inner_->release(frames);
  }
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override {
    return inner_->transmit(frames);
  }
  void attach(void* base, size_t size) noexcept override { inner_->attach(base, size); }
  void detach(void* base, size_t size) noexcept override { inner_->detach(base, size); }
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override {
    return inner_->prepare_wait(descriptors, want_transmit);
  }
  void finish_wait() noexcept override { inner_->finish_wait(); }
  int async_event_fd() const noexcept override { return inner_->async_event_fd(); }
  std::optional<EventType> next_event() noexcept override { return inner_->next_event(); }
  void append_counters(std::vector<Counter>& counters) const override {
    inner_->append_counters(counters);
  }

  const transport::Port& inner() const noexcept { return *inner_; }
  transport::Port& inner() noexcept { return *inner_; }

 protected:
  std::unique_ptr<transport::Port> inner_;
};

}  // namespace weft::middleware
