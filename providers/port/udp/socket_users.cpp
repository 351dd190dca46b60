// SPDX-License-Identifier: BSD-3-Clause
// See socket_users.hpp; the messages are those of sock_diag(7).
#include "providers/port/udp/socket_users.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include <cerrno>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/base/kernel/socket.hpp"
#include "providers/port/udp/socket.hpp"

namespace weft::port::udp {
namespace {

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

struct Answer {
  nlmsghdr header;
  inet_diag_msg body;
  char attributes[512];
};

// No socket is bound to it alone: of RFC 5737 and RFC 6666, which no host has.
Gid no_address(bool ipv4) noexcept {
  if (ipv4) return Gid::from_ipv4(192, 0, 2, 1);
  Gid gid;
  gid.bytes[0] = 1;
  return gid;
}

}  // namespace

SocketUsers::SocketUsers(bool ipv4) noexcept
    : ipv4_(ipv4),
      table_(base::kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

// The kernel answers while it is asked.
std::optional<SocketUsers::Found> SocketUsers::find(const Gid& address, uint16_t port,
                                                    uint32_t scope) const noexcept {
  WEFT_DCHECK(port != 0);
  if (address.is_ipv4() != ipv4_) return {};
  Question question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = ipv4_ ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_UDP;
  question.body.idiag_states = ~0u;
  inet_diag_sockid& id = question.body.id;
  id.idiag_dport = htons(port);
  std::memcpy(id.idiag_dst, address.bytes.data() + (ipv4_ ? 12 : 0), ipv4_ ? 4 : 16);
  id.idiag_if = scope;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  Answer answer;
  ssize_t length = -1;
  if (::send(table_.fd(), &question, sizeof question, 0) == sizeof question)
    length = ::recv(table_.fd(), &answer, sizeof answer, MSG_DONTWAIT);
  constexpr auto kShortest = static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(inet_diag_msg));
  if (length < kShortest || answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  // A socket of IPv6 that takes IPv4 too is none of a weft device.
  if (answer.body.idiag_family != question.body.sdiag_family) return {};
  constexpr uint32_t kAll[4] = {};
  return Found{answer.body.idiag_uid,
               std::memcmp(answer.body.id.idiag_src, kAll, ipv4_ ? 4 : 16) == 0};
}

std::optional<uint32_t> SocketUsers::user_of(const Gid& address, uint16_t port,
                                             uint32_t scope) const noexcept {
  const std::optional<Found> found = find(address, port, scope);
  if (!found) return {};
  return found->user;
}

// A socket on all addresses that has SO_REUSEADDR lets other users bind the port, too.
bool SocketUsers::is_shared_with_others(uint16_t port) noexcept {
  if (!probe_) probe_ = open_probe_socket(ipv4_);
  if (!probe_) return true;
  if (!bind_everywhere(probe_.fd(), ipv4_, port)) return errno != EADDRINUSE;
  probe_ = {};
  return true;
}

std::optional<uint32_t> SocketUsers::user_everywhere(uint16_t port) noexcept {
  const std::optional<Found> found = find(no_address(ipv4_), port, 0);
  if (!found || !found->everywhere || is_shared_with_others(port)) return {};
  return found->user;
}

}  // namespace weft::port::udp
