// SPDX-License-Identifier: BSD-3-Clause
// A TCP connection on terms (terms.hpp): both sides tell theirs, and if they agree, bytes go by TLS
// or in clear. No function blocks but those that have a deadline. What a peer can make a stream
// hold is bounded: until it is established kMostHandshakeBytes, later one TLS record beyond what
// the caller asks for.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/tcp.hpp"
#include "lib/crypto/terms.hpp"
#include "weft/result.hpp"

namespace weft::crypto {

inline constexpr size_t kMostHandshakeBytes = 4096;

class Stream {
 public:
  Stream() = default;
  // Takes a connected socket, which is made non-blocking. On the terms `none` it only tells them.
  // Errors: those of the cryptographic library.
  static Result<Stream> open(base::Socket socket, Side side, const Terms& terms);

  int fd() const noexcept { return socket_.fd(); }
  void close() noexcept { socket_.close(); }
  base::Socket take_socket() noexcept { return std::move(socket_); }
  // Sends what is queued as far as possible without blocking, and closes so that the peer can read
  // it: closing with unread bytes would send a reset that can overtake them.
  void end() noexcept;

  // Continues the handshake. Errors: would_block (wait for POLLIN, or for POLLOUT if it is not
  // flushed()); any other one is final: disconnected, or why the sides do not agree.
  Result<void> establish();
  bool established() const noexcept { return step_ == Step::established; }
  // Of TCP.
  size_t bytes_received() const noexcept { return bytes_received_; }

  // Queues bytes, to be sent by flush(). Only when established.
  Result<void> queue(std::span<const std::byte> bytes);
  // Error would_block: some are left, wait for POLLOUT.
  Result<void> flush();
  bool flushed() const noexcept { return sent_ == out_.size(); }
  size_t unsent() const noexcept { return out_.size() - sent_; }

  // Receives until at least `wanted` bytes are there. Errors: would_block, disconnected.
  Result<void> fill(size_t wanted);
  // Receives what has arrived, at most `most` bytes of TCP; error would_block if nothing has.
  Result<void> receive(size_t most);
  std::string_view received() const noexcept {
    return std::string_view(received_).substr(consumed_);
  }
  void consume(size_t size);

  // The same, blocking until `deadline`. Errors: timed_out too.
  Result<void> establish_by(Instant deadline);
  Result<void> flush_by(Instant deadline);
  Result<void> receive_by(size_t most, Instant deadline);

 private:
  enum class Step : uint8_t { terms, tls, established };

  // At most `most` bytes of TCP into `raw_`.
  Result<void> receive_raw(size_t most);
  Result<void> exchange_terms();
  Result<void> continue_tls();

  base::Socket socket_;
  Step step_ = Step::terms;
  Terms terms_;
  Side side_ = Side::connecting;
  std::unique_ptr<Tls> tls_;
  std::string raw_;       // received, not looked at yet
  std::string received_;  // in clear
  size_t consumed_ = 0;   // of it
  size_t bytes_received_ = 0;
  std::string out_;
  size_t sent_ = 0;
};

}  // namespace weft::crypto
