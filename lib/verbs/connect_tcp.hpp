// SPDX-License-Identifier: BSD-3-Clause
// The TCP side of connection set-up: addresses, non-blocking sockets, and a channel that moves
// whole messages of connect_wire.hpp without ever blocking. A channel holds at most one incoming
// message in a buffer of fixed size, whatever the peer sends.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/verbs/connect_wire.hpp"
#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::verbs {

// CLOCK_MONOTONIC.
Instant wall_now() noexcept;

// An owned file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }
  void close() noexcept;
  int fd() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "host:port", "[v6]:port", "host", "[v6]", "v6" or "".
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view address);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
// All addresses of the host, in the resolver's order. Only a name that needs DNS can block here.
Result<std::vector<SocketAddress>> resolve(const HostPort& where, bool to_listen);

// Starts a connection; it is there when the socket is writable.
Result<Socket> start_connect(const SocketAddress& to);
Result<Socket> start_listen(const SocketAddress& at);
uint16_t bound_port(const Socket& socket);
// Small messages leave at once; a peer that vanished is found.
void tune(const Socket& socket) noexcept;

// Text and code for an errno of a TCP call, with what was tried.
Error socket_error(int error, std::string_view what);

// Waits for `events` on `fd` until `deadline` (one that has passed: looks once); true if one came.
bool wait_for(int fd, short events, Instant deadline) noexcept;

// Moves messages over a connected non-blocking socket.
class Channel {
 public:
  Channel() = default;
  explicit Channel(Socket socket) : socket_(std::move(socket)) {}

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

  Socket socket_;
  std::vector<std::byte> out_;
  size_t sent_ = 0;
  size_t received_ = 0;
  std::array<std::byte, kMaxMessage> in_{};
};

}  // namespace weft::verbs
