// SPDX-License-Identifier: BSD-3-Clause
// See placeholder.hpp.
#include "providers/port/ethernet/placeholder.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/kernel/socket.hpp"

namespace weft::port::ethernet {

Result<int> hold_udp_port(const Gid& address, int scope, uint16_t udp_port,
                          const std::string& port) {
  const bool v4 = address.is_ipv4();
  const int socket = base::kernel_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC);
  sockaddr_in v4_address{};
  v4_address.sin_family = AF_INET;
  v4_address.sin_port = htons(udp_port);
  std::memcpy(&v4_address.sin_addr, &address.bytes[12], 4);
  sockaddr_in6 v6_address{};
  v6_address.sin6_family = AF_INET6;
  v6_address.sin6_port = htons(udp_port);
  v6_address.sin6_scope_id = static_cast<uint32_t>(scope);
  std::memcpy(&v6_address.sin6_addr, address.bytes.data(), 16);
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter = {1, &nothing};
  if (socket < 0 || ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
    return Error{Code::io_error, port + ": a socket to hold the UDP port: " + std::strerror(errno)};
  const auto* const where = v4 ? reinterpret_cast<const sockaddr*>(&v4_address)
                               : reinterpret_cast<const sockaddr*>(&v6_address);
  if (::bind(socket, where, v4 ? sizeof v4_address : sizeof v6_address) == 0) return socket;
  const int error = errno;
  ::close(socket);
  if (error == EADDRNOTAVAIL) return -1;
  return Error{Code::address_in_use, port + ": UDP port " + std::to_string(udp_port) + " of " +
                                         to_string(address) + " is taken (" + std::strerror(error) +
                                         "): another device, or roce+udp, has it"};
}

}  // namespace weft::port::ethernet
