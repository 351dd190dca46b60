// SPDX-License-Identifier: BSD-3-Clause
// The messages that connect() and Listener exchange over a stream (lib/crypto/stream.hpp), behind
// its handshake, to connect two queue pairs:
//
//   connecting side              listening side
//   hello  ------------------>                      queue pair number, PSN, address, limits
//          <------------------  hello               its queue pair is not modified yet
//   (moves its QP to RTS)
//   ready  ------------------>  (moves its QP to RTS)
//          <------------------  ready
//
// Either side returns only when both are in RTS, and a peer that stalls or sends nonsense before
// `ready` does not affect the listener's queue pair. `reject` with a reason replaces any message.
// Pure functions over bytes; every field is validated here. Streams: connect_tcp.hpp.
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
inline constexpr uint16_t kConnectVersion = 3;         // as lib/crypto/terms.hpp
inline constexpr uint16_t kCanTelemetry = 1;           // capability: lib/wire/INT.md
inline constexpr uint16_t kCanSelectiveRepeat = 2;     // capability: lib/wire/SACK.md
inline constexpr size_t kMaxPrivateData = 4096;
inline constexpr size_t kMaxRejectText = 160;
inline constexpr size_t kMaxTransport = 16;

enum class MessageKind : uint8_t { hello = 1, ready = 2, reject = 3 };

struct MessageHeader {
  base::Be32 magic;
  base::Be16 version;
  uint8_t kind = 0;
  uint8_t zero = 0;
  base::Be32 length;  // bytes after the header
};
static_assert(sizeof(MessageHeader) == 12);

// The body of a hello; private data follows.
struct HelloBody {
  std::array<uint8_t, 16> gid{};
  base::Be32 qpn;
  base::Be32 psn;
  base::Be32 path_mtu;
  uint8_t max_rd_atomic = 0;
  uint8_t service = 0;      // QpType: 0 RC, 1 UC, 2 UD, 3 SRD, 4 XRC initiator, 5 XRC target
  base::Be16 capabilities;  // used if set by both sides; unknown bits are ignored
  std::array<char, kMaxTransport> transport{};  // "roce+udp", zero padded
};
static_assert(sizeof(HelloBody) == 48);

inline constexpr size_t kMaxMessage = sizeof(MessageHeader) + sizeof(HelloBody) + kMaxPrivateData;

// A hello in host byte order.
struct Hello {
  Gid gid;
  QpNum qpn;
  Psn psn;
  uint32_t path_mtu = 0;
  uint8_t max_rd_atomic = 0;
  QpType service = QpType::rc;
  uint16_t capabilities = 0;
  std::string transport;  // provider+port, its first kMaxTransport characters
  std::vector<std::byte> private_data;
};

// Valid path MTUs: powers of two from 256, for SRD any number from 256.
bool is_path_mtu(QpType service, uint32_t mtu);

std::vector<std::byte> emit_hello(const Hello& hello);
std::vector<std::byte> emit_ready();
std::vector<std::byte> emit_reject(std::string_view why);

// Validates a received header: magic, version, kind, length. Returns the length of the body.
Result<size_t> check_header(const MessageHeader& header);
// Parses the body of a hello whose header was checked.
Result<Hello> parse_hello(std::span<const std::byte> body);
// The text of a reject, printable characters only.
std::string parse_reject(std::span<const std::byte> body);

// Whether devices of the two transports (provider+port) can exchange packets: ports within one host
// (shm, sim) and providers of libfabric only reach their own kind.
bool transports_match(std::string_view ours, std::string_view theirs);

}  // namespace weft::verbs
