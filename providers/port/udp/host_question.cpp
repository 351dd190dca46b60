// SPDX-License-Identifier: BSD-3-Clause
// See host_question.hpp.
#include "providers/port/udp/host_question.hpp"

#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/check.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {

namespace {

bool says_port_unreachable(const sock_extended_err& error) noexcept {
  if (error.ee_origin == SO_EE_ORIGIN_ICMP)
    return error.ee_type == ICMP_DEST_UNREACH && error.ee_code == ICMP_PORT_UNREACH;
  return error.ee_origin == SO_EE_ORIGIN_ICMP6 && error.ee_type == ICMP6_DST_UNREACH &&
         error.ee_code == ICMP6_DST_UNREACH_NOPORT;
}

// What the kernel made of an ICMP message.
bool is_about_port(const msghdr& message) noexcept {
  for (const cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(c))) {
    const bool extended = (c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                          (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR);
    if (!extended || c->cmsg_len < CMSG_LEN(sizeof(sock_extended_err))) continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(c), sizeof error);
    return says_port_unreachable(error);
  }
  return false;
}

}  // namespace

HostQuestion::HostQuestion(const LocalAddress& local) noexcept
    : local_(local), socket_(open_question_socket(local)) {}

void HostQuestion::ask(const Gid& to, uint16_t port, std::span<const std::byte> datagram,
                       Instant now) noexcept {
  WEFT_DCHECK(!datagram.empty() && datagram.size() <= kMostBytes);
  Asked* oldest = &asked_[0];
  for (Asked& one : asked_) {
    if (one.to == to && one.length != 0 && now - one.at < kInterval) return;
    if (one.at < oldest->at) oldest = &one;
  }
  if (!socket_) socket_ = open_question_socket(local_);
  if (!socket_) return;
  const SocketAddress name = to_socket_address(to, port, local_.scope);
  // The first call may only bring the error of an earlier datagram.
  for (int tries = 0; tries < 2; ++tries)
    if (::sendto(socket_.fd(), datagram.data(), datagram.size(), MSG_DONTWAIT, &name.generic,
                 name.length) >= 0)
      break;
  ++counters_.asked;
  oldest->to = to;
  oldest->at = last_ = now;
  oldest->length = static_cast<uint32_t>(datagram.size());
  std::copy(datagram.begin(), datagram.end(), oldest->bytes.begin());
  waits_ = true;
  polls_ = 0;  // of this host, the answer is there already
}

void HostQuestion::read(Instant now, transport::LostPeers* lost) noexcept {
  if (polls_ != 0) return void(--polls_);
  polls_ = kPolls;
  while (read_one(lost)) continue;
  waits_ = now - last_ < kAnswer;
}

bool HostQuestion::read_one(transport::LostPeers* lost) noexcept {
  std::array<std::byte, kMostBytes + 1> quoted;
  SocketAddress name;
  alignas(cmsghdr) std::array<char, 512> control;
  iovec piece{quoted.data(), quoted.size()};
  msghdr message{};
  message.msg_name = &name.generic;
  message.msg_namelen = sizeof(sockaddr_in6);
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(socket_.fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
  if (length < 0) return errno == EINTR;
  if (is_about_port(message))
    believe(to_gid(name), std::span(quoted).first(static_cast<size_t>(length)), lost);
  else
    ++counters_.unbelieved;
  return true;
}

// `from`: where the quoted datagram went.
void HostQuestion::believe(const Gid& from, std::span<const std::byte> quoted,
                           transport::LostPeers* lost) noexcept {
  for (Asked& one : asked_) {
    const bool same = one.length != 0 && one.length == quoted.size() && one.to == from &&
                      std::memcmp(one.bytes.data(), quoted.data(), quoted.size()) == 0;
    if (!same) continue;
    one.length = 0;
    ++counters_.unreachable;
    if (lost != nullptr)
      lost->add({.address = from, .sign = transport::PeerSign::port_unreachable});
    return;
  }
  ++counters_.unbelieved;
}

}  // namespace weft::port::udp
