// SPDX-License-Identifier: BSD-3-Clause
// Addresses of endpoints as socket addresses: IPv4 for devices with an IPv4 GID, else IPv6, which
// holds any GID. The port is that of the connection manager, or of the endpoint's name service. The
// queue pair number of an SRD endpoint lies in bytes that sockets do not use: sin_zero, and
// sin6_scope_id.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::fi {

// An address of an endpoint. `queue` 0: unknown, or connected.
struct Name {
  Gid gid;
  uint16_t port = 0;  // host order
  QpNum queue;
  bool operator==(const Name&) const = default;
};

// FI_SOCKADDR_IN or FI_SOCKADDR_IN6, that of `gid`.
uint32_t format_of(const Gid& gid) noexcept;
// Bytes of a socket address of that format.
size_t length_of(uint32_t format) noexcept;
// The bytes of `name`, in `out` of at least length_of(format_of(name.gid)).
void put_name(const Name& name, void* out) noexcept;
// The reverse; nothing for another family.
std::optional<Name> name_at(const void* address) noexcept;
// "10.0.0.1:7174", "[fd77::2]:7174".
std::string text_of(const Name& name);
// Whether the address is 127/8, ::1 or that of an interface of this host.
bool is_of_this_host(const Gid& gid) noexcept;
// Resolves node and service; a null node is the unspecified address, for listeners. `family`:
// AF_INET or AF_INET6. `numeric`: no names. Errors: not_found, invalid_argument.
Result<Name> resolve(const char* node, const char* service, int family, bool numeric);

// Copies a socket address to a caller's buffer of *length bytes, as fi_getname does:
// -FI_ETOOSMALL, with the length needed, if it is too small.
int copy_name(const Name& name, void* out, size_t* length) noexcept;

}  // namespace weft::fi
