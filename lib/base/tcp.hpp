// SPDX-License-Identifier: BSD-3-Clause
// TCP for control connections (queue pair set-up, store): address parsing and non-blocking sockets.
// Errors name the operation and the address.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::base {

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

// "host:port", "[v6]:port", "host", "[v6]", "v6" or "" (every address of this host).
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view address, uint16_t default_port);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};
// All addresses of the host, in the resolver's order. Only a name that needs DNS can block here.
Result<std::vector<SocketAddress>> resolve(const HostPort& where, bool to_listen);

// Starts a connection, which is established or has failed when the socket is writable.
Result<Socket> start_connect(const SocketAddress& to);
Result<Socket> start_listen(const SocketAddress& at);
// Connects and returns a blocking socket. Errors: those of the attempt, or timed_out.
Result<Socket> connect_by(const SocketAddress& to, Instant deadline);
uint16_t bound_port(const Socket& socket);
// Sets TCP_NODELAY and keepalive.
void tune(const Socket& socket) noexcept;

// The error of a failed TCP call, from errno and a description of the operation.
Error socket_error(int error, std::string_view what);

// Waits for `events` on `fd` until `deadline` (if it has passed: polls once); true if one occurred.
// Not interrupted by signals.
bool wait_for(int fd, short events, Instant deadline) noexcept;

}  // namespace weft::base
