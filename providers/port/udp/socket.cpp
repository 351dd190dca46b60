// SPDX-License-Identifier: BSD-3-Clause
// Socket options and why each of them is set.
#include "providers/port/udp/socket.hpp"

#include <linux/filter.h>
#include <netinet/udp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/kernel/socket.hpp"
#include "lib/base/membership.hpp"
#include "providers/port/udp/holder.hpp"

namespace weft::port::udp {
namespace {

void set(int fd, int level, int option, int value) noexcept {
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

// Asks for `wanted` bytes, past the system's limit if we may; returns what was granted.
uint32_t set_buffer(int fd, int force, int option, int wanted) noexcept {
  if (::setsockopt(fd, SOL_SOCKET, force, &wanted, sizeof wanted) != 0)
    (void)::setsockopt(fd, SOL_SOCKET, option, &wanted, sizeof wanted);
  int granted = 0;
  socklen_t length = sizeof granted;
  (void)::getsockopt(fd, SOL_SOCKET, option, &granted, &length);
  return static_cast<uint32_t>(granted);
}

bool bind_to(int fd, const Gid& gid, uint32_t port, uint32_t scope) noexcept {
  const SocketAddress address = to_socket_address(gid, static_cast<uint16_t>(port), scope);
  return ::bind(fd, &address.generic, address.length) == 0;
}

// Takes the first free address from 127.0.0.2 on. No SO_REUSEPORT: binding is exclusive.
bool bind_any_loopback(int fd, Gid& gid, uint16_t port) noexcept {
  if (bind_to(fd, gid, port, 0)) return true;
  if (errno != EADDRINUSE || is_held_everywhere(port)) return false;
  while (next_loopback(gid)) {
    if (bind_to(fd, gid, port, 0)) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

Error bind_error(const LocalAddress& local, int error) {
  if (error == EADDRINUSE) return in_use(local);
  return {Code::io_error, "cannot bind UDP port " + std::to_string(local.port + local.shift) +
                              " of " + text_of(local.gid) + ": " + std::strerror(error)};
}

// A socket to receive with, but for its address; without one if the kernel has none left.
ReceiveSocket prepare_receive_socket(bool v4, const Options& options) noexcept {
  ReceiveSocket result;
  result.socket = Descriptor(
      base::kernel_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int fd = result.socket.fd();
  if (fd < 0) return result;
  // Before bind: not one datagram may arrive without its ECN bits.
  if (v4) {
    set(fd, SOL_IP, IP_RECVTOS, 1);
  } else {
    set(fd, SOL_IPV6, IPV6_V6ONLY, 1);
    set(fd, SOL_IPV6, IPV6_RECVTCLASS, 1);
    set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);  // hardware sends RoCEv2 with UDP checksum 0
  }
  if (options.gro) set(fd, SOL_UDP, UDP_GRO, 1);
  if (options.busy_poll) set(fd, SOL_SOCKET, SO_BUSY_POLL, static_cast<int>(options.busy_poll));
  const auto wanted = static_cast<int>(options.rcvbuf != 0 ? options.rcvbuf : kReceiveBuffer);
  result.buffer = set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, wanted);
  return result;
}

// What arrives there is dropped.
Descriptor open_write_only_socket(bool v4) noexcept {
  Descriptor socket(
      base::kernel_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK));
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program = {1, &drop_all};
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  if (!v4) set(socket.fd(), SOL_IPV6, IPV6_V6ONLY, 1);
  return socket;
}

Error failed(const std::string& what) {
  return {Code::io_error, what + ": " + std::strerror(errno)};
}

}  // namespace

std::array<Gid, 2> distant_loopbacks() noexcept {
  const long thread = ::syscall(SYS_gettid);
  const auto high = static_cast<uint8_t>(thread >> 8 & 0x7F), low = static_cast<uint8_t>(thread);
  return {Gid::from_ipv4(127, 255, high, low), Gid::from_ipv4(127, 254, high, low)};
}

bool is_held_everywhere(uint32_t port) noexcept {
  for (const Gid& far : distant_loopbacks()) {
    const Descriptor socket(base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC));
    if (bind_to(socket.fd(), far, port, 0) || errno != EADDRINUSE) return false;
  }
  errno = EADDRINUSE;
  return true;
}

Error in_use(const LocalAddress& local) {
  const std::string port = std::to_string(local.port + local.shift);
  const std::string where = "UDP port " + port + " of " + text_of(local.gid);
  const std::string holder = "holder: " + holder_of(local);
  switch (local.claim) {
    case Claim::any_loopback:
      return {Code::address_in_use,
              "UDP port " + port +
                  " is taken on every loopback address: a program or the kernel (rdma_rxe) holds "
                  "it on 0.0.0.0; find it with: ss -ulnp sport = :" +
                  port};
    case Claim::exclusive:
      return {Code::address_in_use, where + " belongs to another device (" + holder +
                                        "); open udp:lo to get a free address"};
    case Claim::shared:
    case Claim::engine:
      break;
  }
  return {Code::address_in_use,
          where + " is held by another user or by a program that does not share it (" + holder +
              "); use another address of this machine, or on loopback udp:lo"};
}

Result<ReceiveSocket> open_group_socket(const LocalAddress& local, const Gid& group,
                                        const Options& options) {
  ReceiveSocket result = prepare_receive_socket(group.is_ipv4(), options);
  const int fd = result.socket.fd();
  if (fd < 0) return failed("cannot create a UDP socket");
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);  // each gets a copy
  // Not what other sockets have joined over other interfaces.
  set(fd, SOL_IP, IP_MULTICAST_ALL, 0);
  if (!group.is_ipv4()) set(fd, SOL_IPV6, IPV6_MULTICAST_ALL, 0);
  const SocketAddress to = to_socket_address(group, local.port, local.interface);
  if (::bind(fd, &to.generic, to.length) != 0 ||
      !base::change_membership(fd, local.interface, group, true))
    return failed("cannot join the multicast group " + text_of(group) + " at " +
                  text_of(local.gid));
  return result;
}

Result<ReceiveSocket> open_receive_socket(LocalAddress& local, const Options& options) {
  ReceiveSocket result = prepare_receive_socket(local.ipv4(), options);
  const int fd = result.socket.fd();
  if (fd < 0) return failed("cannot create a UDP socket");
  if (local.claim == Claim::shared || local.claim == Claim::engine || local.engines)
    set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  const bool bound = local.claim == Claim::any_loopback
                         ? bind_any_loopback(fd, local.gid, local.port)
                         : bind_to(fd, local.gid, local.port + local.shift, local.scope);
  if (!bound) return bind_error(local, errno);
  return result;
}

Descriptor bind_alone(const LocalAddress& local) noexcept {
  Descriptor socket(base::kernel_socket(local.ipv4() ? AF_INET : AF_INET6,
                                        SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!local.ipv4()) set(socket.fd(), SOL_IPV6, IPV6_V6ONLY, 1);
  if (!bind_to(socket.fd(), local.gid, local.port + local.shift, local.scope)) return {};
  set(socket.fd(), SOL_SOCKET, SO_REUSEPORT, 1);
  return socket;
}

bool bind_everywhere(int fd, bool ipv4, uint16_t port) noexcept {
  Gid any{};
  if (ipv4) any = Gid::from_ipv4(0, 0, 0, 0);
  return bind_to(fd, any, port, 0);
}

Descriptor open_probe_socket(bool ipv4) noexcept {
  Descriptor socket = open_write_only_socket(ipv4);
  set(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  return socket;
}

Descriptor hold_port(bool ipv4, uint16_t port) noexcept {
  Descriptor socket = open_write_only_socket(ipv4);
  set(socket.fd(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (!socket || !bind_everywhere(socket.fd(), ipv4, port)) return {};
  return socket;
}

Descriptor open_transmit_socket(const LocalAddress& local, uint16_t port,
                                uint32_t buffer) noexcept {
  const bool v4 = local.ipv4();
  Descriptor socket = open_write_only_socket(v4);
  const int fd = socket.fd();
  if (fd < 0) return {};
  if (v4) {
    set(fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);  //= roce:C-HDR-8
    set(fd, SOL_IP, IP_TTL, 64);
    set(fd, SOL_IP, IP_MULTICAST_TTL, 64);
  } else {
    set(fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    set(fd, SOL_IPV6, IPV6_UNICAST_HOPS, 64);
    set(fd, SOL_IPV6, IPV6_MULTICAST_HOPS, 64);
    set(fd, SOL_IPV6, IPV6_MULTICAST_IF, static_cast<int>(local.interface));
  }
  // Several processes of one user may use the same source port: no process reads from it.
  set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  (void)set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, static_cast<int>(buffer));
  if (!bind_to(fd, local.gid, port, local.scope)) return {};
  return socket;
}

Descriptor open_question_socket(const LocalAddress& local) noexcept {
  Descriptor socket = open_write_only_socket(local.ipv4());
  if (!socket || !bind_to(socket.fd(), local.gid, 0, local.scope)) return {};
  if (local.ipv4())
    set(socket.fd(), SOL_IP, IP_RECVERR, 1);
  else
    set(socket.fd(), SOL_IPV6, IPV6_RECVERR, 1);
  return socket;
}

uint32_t probe_segments(const LocalAddress& local) noexcept {
  const Descriptor socket = open_transmit_socket(local, 0, 1 << 18);
  SocketAddress self = to_socket_address(local.gid, 0, local.scope);
  if (!socket || ::getsockname(socket.fd(), &self.generic, &self.length) != 0) return 1;
  // One-byte segments to ourselves: the filter drops them, only the kernel's answer counts.
  const char bytes[128] = {};
  iovec piece = {const_cast<char*>(bytes), 0};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {};
  msghdr header{};
  header.msg_name = &self.generic;
  header.msg_namelen = self.length;
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* segment = CMSG_FIRSTHDR(&header);
  segment->cmsg_level = SOL_UDP;
  segment->cmsg_type = UDP_SEGMENT;
  segment->cmsg_len = CMSG_LEN(sizeof(uint16_t));
  const uint16_t one = 1;
  std::memcpy(CMSG_DATA(segment), &one, sizeof one);
  for (const uint32_t count : {128u, 64u}) {
    piece.iov_len = count;
    if (::sendmsg(socket.fd(), &header, MSG_DONTWAIT) == static_cast<ssize_t>(count)) return count;
  }
  return 1;
}

}  // namespace weft::port::udp
