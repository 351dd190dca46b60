// SPDX-License-Identifier: BSD-3-Clause
// The TCP side of connection set-up: a channel that sends and receives whole messages of
// connect_wire.hpp over a non-blocking socket. It holds at most one received message, in a buffer
// of fixed size, whatever the peer sends.
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

// A connected non-blocking socket. No function blocks.
class Channel {
 public:
  Channel() = default;
  explicit Channel(base::Socket socket) : socket_(std::move(socket)) {}

  int fd() const noexcept { return socket_.fd(); }
  void close() noexcept { socket_.close(); }
  // Queues a message; call flush() to send it.
  void queue(std::vector<std::byte> message);
  // Sends queued messages. Error would_block: some are left, wait for POLLOUT.
  Result<void> flush();
  bool flushed() const noexcept { return sent_ == out_.size(); }
  // Receives a message; returns its kind when body() is complete. Errors: would_block (wait for
  // POLLIN), disconnected (a reject of the peer, with its text).
  Result<MessageKind> receive();
  std::span<const std::byte> body() const noexcept;
  // Discards the received message, before the next receive().
  void next() noexcept { received_ = 0; }
  // Sends a reject with the reason, as far as possible without blocking, and closes.
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
