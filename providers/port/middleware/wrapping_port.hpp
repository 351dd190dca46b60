// SPDX-License-Identifier: BSD-3-Clause
// A port that is the port inside it: middleware overrides what it does otherwise.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lib/engine/port.hpp"

namespace weft::middleware {

class WrappingPort : public engine::Port {
 public:
  explicit WrappingPort(std::unique_ptr<engine::Port> inner) : inner_(std::move(inner)) {}

  const engine::Capabilities& capabilities() const noexcept override {
    return inner_->capabilities();
  }
  Gid address() const noexcept override { return inner_->address(); }
  QpnRange qpn_range() const noexcept override { return inner_->qpn_range(); }
  uint16_t source_port(uint16_t wanted) noexcept override { return inner_->source_port(wanted); }
  size_t receive(std::span<engine::Frame> frames) noexcept override {
    return inner_->receive(frames);
  }
  void release(std::span<const engine::Frame> frames) noexcept override { inner_->release(frames); }
  size_t transmit(std::span<const engine::TxFrame> frames) noexcept override {
    return inner_->transmit(frames);
  }
  void attach(void* base, size_t size) noexcept override { inner_->attach(base, size); }
  void detach(void* base, size_t size) noexcept override { inner_->detach(base, size); }
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) noexcept override {
    return inner_->prepare_wait(descriptors, want_transmit);
  }
  void finish_wait() noexcept override { inner_->finish_wait(); }
  void append_counters(std::vector<Counter>& counters) const override {
    inner_->append_counters(counters);
  }

 protected:
  std::unique_ptr<engine::Port> inner_;
};

}  // namespace weft::middleware
