// SPDX-License-Identifier: BSD-3-Clause
// Socket addresses and GIDs, and which device serves an address.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "lib/adapters/verbs/rdmacm/contexts.hpp"

namespace weft::rdmacm {

// False: an address family that rdma_cma.h knows and this library does not (AF_IB), or none.
bool is_ip(const sockaddr* address) noexcept;
bool is_any(const sockaddr* address) noexcept;
size_t length_of(const sockaddr* address) noexcept;
Gid gid_of(const sockaddr* address) noexcept;
uint16_t port_of(const sockaddr* address) noexcept;
void set_port(sockaddr* address, uint16_t port) noexcept;
void set_address(sockaddr_storage& out, const Gid& gid, uint16_t port) noexcept;
// "10.0.0.1:7174", "[fd77::2]:7174"
std::string text_of(const Gid& gid, uint16_t port);

// The device that listens on an address of this host; null: none.
Context* device_at(const Gid& address);

struct Path {
  Context* context;
  Gid source;       // an address of this host
  Gid destination;  // the peer's GID on the device
};
// The path to `destination`, from `source` if that is set, over `device` if that is not null.
std::optional<Path> find_path(const std::optional<Gid>& source, const sockaddr* destination,
                              Context* device);

}  // namespace weft::rdmacm
