// SPDX-License-Identifier: BSD-3-Clause
// The port local: frames as datagrams between unix sockets of one machine, roce+local:JOB. Devices
// of one job reach each other. A datagram is a Header, then the frame.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/transport/port.hpp"

namespace weft::port {

class LocalPort final : public transport::Port {
 public:
  // `socket`: bound to the name of member `number` of `job`.
  LocalPort(int socket, std::string job, uint8_t number);
  ~LocalPort() override;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return Gid::from_ipv4(10, 99, 0, number_); }
  size_t receive(std::span<transport::Frame> frames) noexcept override;
  void release(std::span<const transport::Frame> frames) noexcept override;
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override;
  bool prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) override;
  void append_counters(std::vector<Counter>& counters) const override;

 private:
  static constexpr size_t kBurst = 32;
  static constexpr uint32_t kMaxFrame = 4608;  // MTU 4096 and all headers

  // What a frame says of itself outside its bytes.
  struct Header {
    transport::Path path;
    uint16_t ip_id = 0;
    uint8_t ecn = 0;
  };
  struct Buffer {
    Header header;
    std::array<std::byte, kMaxFrame> bytes;
  };

  transport::Capabilities capabilities_;
  int socket_;
  std::string job_;
  uint8_t number_;
  std::vector<Buffer> buffers_;  // of the frames that are lent
  uint64_t no_peer_ = 0;         // frames dropped: no such member, or it has closed
};

// Errors: invalid_argument (a key), address_in_use (254 members), io_error.
Result<std::unique_ptr<transport::Port>> open_local_port(const transport::PortOptions& options);

}  // namespace weft::port
