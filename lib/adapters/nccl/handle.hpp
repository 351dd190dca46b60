// SPDX-License-Identifier: BSD-3-Clause
// The handle of a listener: the bytes that NCCL carries from listen() of one rank to connect() of
// another. They are checked, as anything may have come in their place: what no listener of weft has
// written is refused.
//
//   0  8  "weftnccl"      8  1  version      9  1  reserved, 0      10  2  TCP port
//  12 16  address of the listener: IPv6, or IPv4 as ::ffff:a.b.c.d
//  28 16  nonce: the connecting side shows it, so that only who has the handle is accepted
//  44  4  check sum of bytes 0 to 43 (FNV-1a)
//  48  8  0; connect() keeps the number of the connection that it has begun here (below)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::nccl {

inline constexpr uint8_t kHandleVersion = 1;
inline constexpr size_t kHandleBytes = 56;

using Nonce = std::array<uint8_t, 16>;

struct Handle {
  Gid address;
  uint16_t port = 0;
  Nonce nonce{};
};

// Writes the handle, and zeros behind it. `out` has kHandleBytes or more.
void emit_handle(const Handle& handle, std::span<std::byte> out);
// Error: invalid_argument, with what is wrong.
Result<Handle> parse_handle(std::span<const std::byte> bytes);

// NCCL calls connect() again with the same bytes until there is a connection; in between they hold
// a random number that names it in this process. It is looked up, never used as an address.
uint64_t connection_number(std::span<const std::byte> bytes);
void set_connection_number(std::span<std::byte> bytes, uint64_t number);

}  // namespace weft::nccl
