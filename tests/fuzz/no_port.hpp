// SPDX-License-Identifier: BSD-3-Clause
// A port with capabilities that drops all frames.
#pragma once

#include "lib/transport/port.hpp"

namespace weft::fuzz {

class NoPort final : public transport::Port {
 public:
  NoPort(const Gid& address, const transport::Capabilities& capabilities)
      : address_(address), capabilities_(capabilities) {}
  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return address_; }
  Result<void> join(const Gid&) override { return {}; }
  size_t receive(std::span<transport::Frame>) noexcept override { return 0; }
  void release(std::span<const transport::Frame>) noexcept override {}
  size_t transmit(std::span<const transport::TxFrame> f) noexcept override { return f.size(); }
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return true; }

 private:
  Gid address_;
  transport::Capabilities capabilities_;
};

}  // namespace weft::fuzz
