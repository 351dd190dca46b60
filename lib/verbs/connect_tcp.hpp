// SPDX-License-Identifier: BSD-3-Clause
// The TCP side of connection set-up: a channel that sends and receives whole messages of
// connect_wire.hpp over an established stream. Of a message no more is received than the length
// that its header may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/crypto/stream.hpp"
#include "lib/verbs/connect_wire.hpp"
#include "weft/result.hpp"

namespace weft::verbs {

// No function blocks.
class Channel {
 public:
  Channel() = default;
  explicit Channel(crypto::Stream stream) : stream_(std::move(stream)) {}

  crypto::Stream& stream() noexcept { return stream_; }
  int fd() const noexcept { return stream_.fd(); }
  void close() noexcept { stream_.close(); }
  base::Socket take_socket() noexcept { return stream_.take_socket(); }
  // Queues a message; call flush() to send it.
  Result<void> queue(const std::vector<std::byte>& message) { return stream_.queue(message); }
  // Sends queued messages. Error would_block: some are left, wait for POLLOUT.
  Result<void> flush() { return stream_.flush(); }
  bool flushed() const noexcept { return stream_.flushed(); }
  // Receives a message; returns its kind when body() is complete. Errors: would_block (wait for
  // POLLIN), disconnected (a reject of the peer, with its text).
  Result<MessageKind> receive();
  std::span<const std::byte> body() const noexcept;
  // Discards the received message, before the next receive().
  void next() { stream_.consume(sizeof(MessageHeader) + body_size_); }
  // Sends a reject with the reason, as far as possible without blocking, and closes.
  void reject(std::string_view why);

 private:
  crypto::Stream stream_;
  size_t body_size_ = 0;
};

// The same for a stream that is no channel yet.
void reject(crypto::Stream& stream, std::string_view why);

}  // namespace weft::verbs
