// SPDX-License-Identifier: BSD-3-Clause
// Processes of another user, for attacks from the same host: needs root. They send UDP datagrams
// from any address of the host.
#pragma once

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>
#include <span>

#include "tests/support/catch.hpp"
#include "weft/types.hpp"

namespace weft::test {

inline constexpr uid_t kOtherUser = 65534;

// Runs `act` in a process of another user, which ends with what it returns.
template <class Act>
pid_t start_as_other_user(Act act) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  if (::setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
      ::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0)
    ::_exit(100);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user clears it
  ::_exit(act());
}

inline int exit_status_of(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

template <class Act>
int as_other_user(Act act) {
  return exit_status_of(start_as_other_user(act));
}

inline sockaddr_in ipv4_address(const Gid& gid, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  std::memcpy(&address.sin_addr, gid.bytes.data() + 12, 4);
  return address;
}

// A UDP socket with these options (of SOL_SOCKET), bound to the port of `gid`, or -1.
inline int bound_socket(const Gid& gid, uint16_t port, std::initializer_list<int> options = {}) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  for (const int option : options) {
    if (option == SO_BINDTODEVICE)
      (void)::setsockopt(fd, SOL_SOCKET, option, "lo", 3);
    else
      (void)::setsockopt(fd, SOL_SOCKET, option, &on, sizeof on);
  }
  const sockaddr_in at = ipv4_address(gid, port);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return fd;
  ::close(fd);
  return -1;
}

// Sends from `source`, which need not be the socket's address, to the UDP port of RoCE.
inline bool send_from(int fd, const Gid& source, const Gid& to, std::span<const std::byte> bytes) {
  sockaddr_in name = ipv4_address(to, 4791);
  iovec piece = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  in_pktinfo info{};
  std::memcpy(&info.ipi_spec_dst, source.bytes.data() + 12, 4);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof info)] = {};
  msghdr message{};
  message.msg_name = &name;
  message.msg_namelen = sizeof name;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = IPPROTO_IP;
  header->cmsg_type = IP_PKTINFO;
  header->cmsg_len = CMSG_LEN(sizeof info);
  std::memcpy(CMSG_DATA(header), &info, sizeof info);
  return ::sendmsg(fd, &message, 0) == static_cast<ssize_t>(bytes.size());
}

}  // namespace weft::test
