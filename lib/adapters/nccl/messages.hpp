// SPDX-License-Identifier: BSD-3-Clause
// What the two sides of a connection tell each other over TCP, by which they are set up, and which
// shows afterwards that the peer's process lives. Each message: "wnc1", kind (2 bytes), length of
// the body (2 bytes), body.
//
//   connecting side             accepting side
//     hello        ->                           its queue pairs, ring of announcements, nonce
//                  <-             hello         queue pairs in RTS, receives posted
//     ready        ->                           queue pairs in RTS
//     goodbye     <->             goodbye       closed: what is in flight is given up
//     reject      <->             reject        in place of any of these: a text for the log
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/adapters/nccl/handle.hpp"
#include "weft/qp.hpp"

namespace weft::nccl {

inline constexpr uint16_t kProtocolVersion = 1;
inline constexpr size_t kMaxLanes = 8;  // queue pairs of a connection
inline constexpr size_t kMessageHeader = 8, kMaxBody = 2048;
inline constexpr size_t kMaxDevice = 512, kMaxIdentity = 128;  // bytes of these in a hello

enum class Message : uint16_t { hello = 1, ready = 2, goodbye = 3, reject = 4 };

// The queue pair of a lane.
struct LaneAddress {
  Gid gid;
  QpNum qpn;
  Psn psn;
  uint32_t path_mtu = 0;
};

struct Hello {
  Nonce nonce{};
  std::string device;    // device strings without keys, with a semicolon between two members
  std::string identity;  // "host HOST, process PID": for messages
  QpType service = QpType::rc;
  uint8_t traffic_class = 0;
  uint64_t ring_address = 0;  // of the connecting side: where announcements are written
  RKey ring_rkey;
  uint32_t max_part = 0;  // bytes of one WRITE, at most: the smaller of both sides counts
  std::vector<LaneAddress> lanes;
};

// A whole message.
std::vector<std::byte> emit(Message kind, std::span<const std::byte> body);
std::vector<std::byte> emit_hello(const Hello& hello);
std::vector<std::byte> emit_reject(std::string_view text);
// `completed`: the receiver has taken the data of all requests before this one (sequence number).
std::vector<std::byte> emit_goodbye(uint32_t completed);

// The kind and body length in a header. Error: invalid_argument.
struct MessageHeader {
  Message kind = Message::hello;
  size_t length = 0;
};
Result<MessageHeader> parse_header(std::span<const std::byte> bytes);
// The nonce of a hello of any version. Error: invalid_argument.
Result<Nonce> parse_nonce(std::span<const std::byte> body);
// Errors: invalid_argument, mismatch (other version or byte order).
Result<Hello> parse_hello(std::span<const std::byte> body);
std::string parse_reject(std::span<const std::byte> body);
uint32_t parse_goodbye(std::span<const std::byte> body);

// Whether two sides can be connected, each member of a virtual device with the other side's member
// at the same place. Error: mismatch; the text is for both.
Result<void> check_peer(const Hello& ours, const Hello& peer);

}  // namespace weft::nccl
