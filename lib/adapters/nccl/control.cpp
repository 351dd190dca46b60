// SPDX-License-Identifier: BSD-3-Clause
// See control.hpp.
#include "lib/adapters/nccl/control.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::nccl {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  SocketAddress(const Gid& address, uint16_t port, uint32_t interface_index) {
    if (address.is_ipv4()) {
      auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
      v4->sin_family = AF_INET;
      v4->sin_port = htons(port);
      std::memcpy(&v4->sin_addr, address.bytes.data() + 12, 4);
      length = sizeof *v4;
    } else {
      auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(port);
      std::memcpy(&v6->sin6_addr, address.bytes.data(), 16);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) v6->sin6_scope_id = interface_index;
      length = sizeof *v6;
    }
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Error failed(const std::string& what, int error) {
  const Code code = error == EADDRNOTAVAIL ? Code::not_found : Code::io_error;
  return {code, what + ": " + std::strerror(error)};
}

Result<Descriptor> new_socket(const SocketAddress& address) {
  Descriptor made(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (made.fd() < 0) return failed("cannot create a TCP socket", errno);
  return made;
}

void set_options(int fd) {
  const int on = 1, idle_s = 1, interval_s = 1, probes = 3;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

// A connection that has ended otherwise than by its peer closing it.
Error broken(int error) {
  const bool is_reset = error == ECONNRESET || error == EPIPE;
  return {is_reset ? Code::peer_failed : Code::timed_out, std::strerror(error)};
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

std::string text_of(const Gid& address, uint16_t port) {
  const std::string host = to_string(address);
  return (address.is_ipv4() ? host : "[" + host + "]") + ":" + std::to_string(port);
}

Result<Listening> listen_at(const Gid& address, uint32_t interface_index) {
  SocketAddress where(address, 0, interface_index);
  Result<Descriptor> made = new_socket(where);
  if (!made) return made.error();
  if (::bind(made->fd(), where.get(), where.length) != 0 || ::listen(made->fd(), 128) != 0)
    return failed("cannot listen on " + to_string(address), errno);
  if (::getsockname(made->fd(), reinterpret_cast<sockaddr*>(&where.storage), &where.length) != 0)
    return failed("getsockname", errno);
  const uint16_t port = where.storage.ss_family == AF_INET
                            ? reinterpret_cast<sockaddr_in*>(&where.storage)->sin_port
                            : reinterpret_cast<sockaddr_in6*>(&where.storage)->sin6_port;
  return Listening{std::move(*made), ntohs(port)};
}

Result<Descriptor> start_connect(const Gid& address, uint16_t port, uint32_t interface_index) {
  const SocketAddress where(address, port, interface_index);
  Result<Descriptor> made = new_socket(where);
  if (!made) return made.error();
  if (::connect(made->fd(), where.get(), where.length) != 0 && errno != EINPROGRESS)
    return failed("cannot connect to " + text_of(address, port), errno);
  return std::move(*made);
}

Control::Control(Descriptor socket) : socket_(std::move(socket)) {
  if (socket_.fd() >= 0) set_options(socket_.fd());
}

Result<bool> Control::connected() const {
  pollfd waits{socket_.fd(), POLLOUT, 0};
  if (::poll(&waits, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket_.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error == 0) return true;
  if (error == ECONNREFUSED) return Error{Code::peer_failed, "there is no listener any more"};
  return Error{Code::disconnected, std::strerror(error)};
}

void Control::send(std::span<const std::byte> message) {
  out_.insert(out_.end(), message.begin(), message.end());
  (void)flush();
}

Result<void> Control::flush() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(socket_.fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) return {};
    if (sent < 0) return broken(errno);
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  return {};
}

std::optional<Control::Incoming> Control::take(const MessageHeader& header) {
  if (in_.size() < kMessageHeader + header.length) return {};
  const auto body = in_.begin() + kMessageHeader;
  const auto end = body + static_cast<ptrdiff_t>(header.length);
  Incoming message{header.kind, {body, end}};
  in_.erase(in_.begin(), end);
  return message;
}

Result<std::optional<Control::Incoming>> Control::receive() {
  for (;;) {
    if (in_.size() >= kMessageHeader) {
      const Result<MessageHeader> header = parse_header(in_);
      if (!header) return header.error();
      if (std::optional<Incoming> message = take(*header)) return message;
    }
    std::byte chunk[1024];
    const ssize_t got = ::recv(socket_.fd(), chunk, sizeof chunk, 0);
    if (got > 0) {
      in_.insert(in_.end(), chunk, chunk + got);
      continue;
    }
    if (got < 0 && would_block(errno)) {
      if (const Result<void> sent = flush(); !sent) return sent.error();
      return std::optional<Incoming>();
    }
    if (got == 0) return Error{Code::disconnected, "the connection was closed"};
    return broken(errno);
  }
}

}  // namespace weft::nccl
