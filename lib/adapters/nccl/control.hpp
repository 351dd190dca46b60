// SPDX-License-Identifier: BSD-3-Clause
// The TCP connection of two communicators: messages of messages.hpp without blocking, and the sign
// that the peer's process has ended. Keepalives find a dead host in about 4 s.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/adapters/nccl/descriptor.hpp"
#include "lib/adapters/nccl/messages.hpp"
#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::nccl {

// An address and TCP port; `interface_index` is for link-local addresses. "[::1]:7", "10.0.0.1:7".
std::string text_of(const Gid& address, uint16_t port);
// Listens at any free port of `address`. Error: not_found (no address of this host), io_error.
struct Listening {
  Descriptor socket;
  uint16_t port = 0;
};
Result<Listening> listen_at(const Gid& address, uint32_t interface_index);
// Begins to connect.
Result<Descriptor> start_connect(const Gid& address, uint16_t port, uint32_t interface_index);

class Control {
 public:
  explicit Control(Descriptor socket = Descriptor());

  struct Incoming {
    Message kind = Message::hello;
    std::vector<std::byte> body;
  };
  // Queues a message and sends what the kernel takes. One that it does not take now leaves with
  // later calls of flush() or receive().
  void send(std::span<const std::byte> message);
  // Errors: those of receive().
  Result<void> flush();
  // The next whole message, if there is one. Errors: disconnected (the peer has closed the
  // connection, or its process has ended), peer_failed (the peer's kernel knows the connection no
  // more: its process has ended, or TCP has given up there), timed_out (TCP has given up here: host
  // or path do not answer), invalid_argument (malformed).
  Result<std::optional<Incoming>> receive();
  // Whether TCP is connected. Error: not_found (no listener), disconnected.
  Result<bool> connected() const;

 private:
  std::optional<Incoming> take(const MessageHeader& header);

  Descriptor socket_;
  std::vector<std::byte> in_, out_;
};

}  // namespace weft::nccl
