// SPDX-License-Identifier: BSD-3-Clause
// The TCP side of connection set-up: a channel that moves whole messages of connect_wire.hpp over a
// non-blocking socket without ever blocking. A channel holds at most one incoming
// message in a buffer of fixed size, whatever the peer sends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/tcp.hpp"
#include "lib/verbs/connect_wire.hpp"
#include "weft/result.hpp"

namespace weft::verbs {

// Moves messages over a connected non-blocking socket.
class Channel {
 public:
  Channel() = default;
  explicit Channel(base::Socket socket) : socket_(std::move(socket)) {}

  int fd() const noexcept { return socket_.fd(); }
  void close() noexcept { socket_.close(); }
  // Queues one message. The caller flushes.
  void queue(std::vector<std::byte> message);
  // ok when everything queued is in the kernel; would_block: wait for POLLOUT.
  Result<void> flush();
  bool flushed() const noexcept { return sent_ == out_.size(); }
  // The kind of the complete message in body(), or would_block: wait for POLLIN. A reject from the
  // peer is an error that carries its text.
  Result<MessageKind> receive();
  std::span<const std::byte> body() const noexcept;
  // Forgets the message received, so that the next can come.
  void next() noexcept { received_ = 0; }
  // Tells the peer why, as far as the socket takes it without blocking, and closes.
  void reject(std::string_view why);

 private:
  Result<void> fill(size_t wanted);

  base::Socket socket_;
  std::vector<std::byte> out_;
  size_t sent_ = 0;
  size_t received_ = 0;
  std::array<std::byte, kMaxMessage> in_{};
};

}  // namespace weft::verbs
