// SPDX-License-Identifier: BSD-3-Clause
// TCP sockets (tcp.hpp). Descriptors are close-on-exec.
#include "lib/base/tcp.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "lib/base/clock.hpp"
#include "lib/base/kernel/socket.hpp"

namespace weft::base {

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Error socket_error(int error, std::string_view what) {
  Code code = Code::io_error;
  if (error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH)
    code = Code::not_found;
  if (error == ETIMEDOUT) code = Code::timed_out;
  if (error == ECONNRESET || error == EPIPE) code = Code::disconnected;
  if (error == EADDRINUSE) code = Code::address_in_use;
  if (error == EACCES || error == EPERM) code = Code::permission_denied;
  if (error == EMFILE || error == ENFILE || error == ENOMEM) code = Code::no_memory;
  return {code, std::string(what) + ": " + std::strerror(error)};
}

Result<HostPort> parse_host_port(std::string_view address, uint16_t default_port) {
  HostPort where{{}, default_port};
  std::string_view port;
  bool has_port = false;
  const size_t last = address.rfind(':');
  if (!address.empty() && address.front() == '[') {
    const size_t close = address.find(']');
    if (close == std::string_view::npos)
      return Error{Code::invalid_argument, "no ']' in address '" + std::string(address) + "'"};
    where.host = address.substr(1, close - 1);
    const std::string_view rest = address.substr(close + 1);
    has_port = !rest.empty();
    if (has_port && rest.front() != ':')
      return Error{Code::invalid_argument,
                   "expected ':port' after ']' in address '" + std::string(address) + "'"};
    if (has_port) port = rest.substr(1);
  } else if (last != std::string_view::npos && address.find(':') == last) {
    where.host = address.substr(0, last);
    port = address.substr(last + 1);
    has_port = true;
  } else {
    where.host = address;  // no colon, or a bare IPv6 address
  }
  if (!has_port) return where;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), where.port);
  if (error != std::errc{} || end != port.data() + port.size())
    return Error{Code::invalid_argument, "'" + std::string(port) + "' in address '" +
                                             std::string(address) + "' is no port (0..65535)"};
  return where;
}

Result<std::vector<SocketAddress>> resolve(const HostPort& where, bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const std::string port = std::to_string(where.port);
  const int error =
      getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(), port.c_str(), &hints, &list);
  if (error != 0)
    return Error{error == EAI_MEMORY || (error == EAI_SYSTEM && errno == ENOMEM) ? Code::no_memory
                                                                                 : Code::not_found,
                 "cannot resolve host '" + where.host + "': " + gai_strerror(error)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, &freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    SocketAddress address;
    address.size = static_cast<socklen_t>(a->ai_addrlen);
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    found.push_back(address);
  }
  // "" listens on one IPv6 socket that accepts IPv4 too, if the host has IPv6.
  if (to_listen)
    std::stable_partition(found.begin(), found.end(),
                          [](const SocketAddress& a) { return a.storage.ss_family == AF_INET6; });
  return found;
}

Result<Socket> start_connect(const SocketAddress& to) {
  Socket socket(
      base::kernel_socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return socket_error(errno, "cannot make a TCP socket");
  tune(socket);
  const auto* address = reinterpret_cast<const sockaddr*>(&to.storage);
  if (::connect(socket.fd(), address, to.size) != 0 && errno != EINPROGRESS && errno != EINTR)
    return socket_error(errno, "cannot connect");
  return socket;
}

Result<Socket> start_listen(const SocketAddress& at) {
  Socket socket(
      base::kernel_socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return socket_error(errno, "cannot make a TCP socket");
  const int on = 1;
  const int off = 0;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.storage.ss_family == AF_INET6)
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(socket.fd(), reinterpret_cast<const sockaddr*>(&at.storage), at.size) != 0)
    return socket_error(errno, "cannot listen here");
  if (listen(socket.fd(), SOMAXCONN) != 0) return socket_error(errno, "cannot listen here");
  return socket;
}

uint16_t bound_port(const Socket& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  if (bound.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

void tune(const Socket& socket) noexcept {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

Result<Socket> connect_by(const SocketAddress& to, Instant deadline) {
  Result<Socket> socket = start_connect(to);
  if (!socket) return socket;
  if (!wait_for(socket->fd(), POLLOUT, deadline))
    return socket_error(ETIMEDOUT, "cannot connect in time");
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return socket_error(error, "cannot connect");
  const int flags = fcntl(socket->fd(), F_GETFL);
  fcntl(socket->fd(), F_SETFL, flags & ~O_NONBLOCK);
  return socket;
}

bool wait_for(int fd, short events, Instant deadline) noexcept {
  for (;;) {
    const int64_t left_ms = deadline.is_never() ? 1 << 30 : (deadline - wall_now()).ms() + 1;
    pollfd p{fd, events, 0};
    const int ready = poll(&p, 1, static_cast<int>(std::clamp<int64_t>(left_ms, 0, 1 << 30)));
    if (ready > 0) return true;
    if (left_ms <= 0 || (ready < 0 && errno != EINTR)) return false;
  }
}

}  // namespace weft::base
