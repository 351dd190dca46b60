// SPDX-License-Identifier: BSD-3-Clause
// See neighbour_socket.hpp.
#include "providers/port/af_xdp/neighbour_socket.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "lib/base/kernel/socket.hpp"

namespace weft::port::af_xdp {
namespace {

constexpr int kMaxMessages = 16;

// ARP, and ICMPv6 of types 135 (solicitation) and 136 (advertisement). Jumps count from the next
// instruction.
constexpr sock_filter kFilter[] = {
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 6, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 6),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 0, 4),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 54),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 136, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 135, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0xFFFFFFFF),
    BPF_STMT(BPF_RET | BPF_K, 0),
};

}  // namespace

NeighbourSocket::~NeighbourSocket() {
  if (fd_ >= 0) ::close(fd_);
}

Result<NeighbourSocket> NeighbourSocket::open(int interface) {
  NeighbourSocket made;
  made.fd_ = base::kernel_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK);
  const sock_fprog filter = {sizeof kFilter / sizeof *kFilter, const_cast<sock_filter*>(kFilter)};
  const int ignore_own = 1;
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_ALL);
  where.sll_ifindex = interface;
  if (made.fd_ >= 0 &&
      ::setsockopt(made.fd_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0 &&
      ::setsockopt(made.fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore_own, sizeof ignore_own) ==
          0 &&
      ::bind(made.fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0)
    return made;
  if (errno == EPERM || errno == EACCES)
    return Error{Code::permission_denied,
                 "af_xdp: it needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root; roce+udp "
                 "needs no privilege"};
  return Error{Code::io_error, std::string("af_xdp: a socket for ARP: ") + std::strerror(errno)};
}

size_t NeighbourSocket::exchange(ethernet::Neighbours& neighbours, uint64_t& sent) noexcept {
  size_t received = 0;
  std::byte message[256];
  for (int i = 0; i < kMaxMessages; ++i) {
    const ssize_t got = ::recv(fd_, message, sizeof message, MSG_DONTWAIT);
    if (got <= 0) break;
    received += neighbours.on_message(message, static_cast<uint32_t>(got));
  }
  for (std::span<const std::byte> bytes; !(bytes = neighbours.next_message()).empty();)
    sent += ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0;
  return received;
}

}  // namespace weft::port::af_xdp
