// SPDX-License-Identifier: BSD-3-Clause
// The messages that connect() and Listener exchange over TCP before two queue pairs can talk:
//
//   connecting side              listening side
//   hello  ------------------>                      both names, sequence numbers, limits
//          <------------------  hello               the queue pair is not touched yet
//   (walks its QP to RTS)
//   ready  ------------------>  (walks its QP to RTS)
//          <------------------  ready
//
// so either side returns only when both are in RTS, and a peer that stalls or lies before `ready`
// has cost the listener nothing. `reject` replaces any of them and says why. Pure functions over
// bytes; every field is checked here, the sockets are in connect_tcp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/bytes.hpp"
#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::verbs {

inline constexpr uint32_t kConnectMagic = 0x57454654;  // "WEFT"
inline constexpr uint16_t kConnectVersion = 2;
inline constexpr uint16_t kCanTelemetry = 1;  // capability: lib/wire/INT.md
inline constexpr size_t kMaxPrivateData = 4096;
inline constexpr size_t kMaxRejectText = 160;

enum class MessageKind : uint8_t { hello = 1, ready = 2, reject = 3 };

struct MessageHeader {
  base::Be32 magic;
  base::Be16 version;
  uint8_t kind = 0;
  uint8_t zero = 0;
  base::Be32 length;  // of what follows
};
static_assert(sizeof(MessageHeader) == 12);

// What follows the header of a hello; the private data follows it.
struct HelloBody {
  std::array<uint8_t, 16> gid{};
  base::Be32 qpn;
  base::Be32 psn;
  base::Be32 path_mtu;
  uint8_t max_rd_atomic = 0;
  uint8_t service = 0;      // QpType: 0 RC, 1 UC, 2 UD, 3 SRD, 4 XRC initiator, 5 its target
  base::Be16 capabilities;  // what both state holds; unknown bits mean nothing
  std::array<char, 16> transport{};  // "roce+udp", zero padded
};
static_assert(sizeof(HelloBody) == 48);

inline constexpr size_t kMaxMessage = sizeof(MessageHeader) + sizeof(HelloBody) + kMaxPrivateData;

// A hello in host form.
struct Hello {
  Gid gid;
  QpNum qpn;
  Psn psn;
  uint32_t path_mtu = 0;
  uint8_t max_rd_atomic = 0;
  QpType service = QpType::rc;
  uint16_t capabilities = 0;
  std::string transport;  // provider+port
  std::vector<std::byte> private_data;
};

// RoCEv2 has powers of two up to 4096, ports over memory larger ones; SRD takes any length.
bool is_path_mtu(QpType service, uint32_t mtu);

std::vector<std::byte> emit_hello(const Hello& hello);
std::vector<std::byte> emit_ready();
std::vector<std::byte> emit_reject(std::string_view why);

// Checks a header that arrived: magic, version, kind, a length that this kind may have.
// Returns the length of the body.
Result<size_t> check_header(const MessageHeader& header);
// Parses the body of a hello whose header was checked.
Result<Hello> parse_hello(std::span<const std::byte> body);
// The text of a reject, printable characters only.
std::string parse_reject(std::span<const std::byte> body);

// True if packets of a device of the one transport reach a device of the other: ports that stay
// within one host talk only to their own kind.
bool transports_match(std::string_view ours, std::string_view theirs);

}  // namespace weft::verbs
