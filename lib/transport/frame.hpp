// SPDX-License-Identifier: BSD-3-Clause
// Frames: the unit that ports and engines exchange. A frame is a path and the bytes from the BTH
// (or SRD header) to the end, ICRC included. The port owns received frames until they are released;
// the engine owns frames to send, which are valid during one transmit() call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/check.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::transport {

// The fields of the outer headers that the engine chooses or reads.
struct Path {
  Gid source;
  Gid destination;
  uint16_t source_port = 0xC000;  // UDP source port: the path entropy
  uint16_t destination_port = 4791;
  uint8_t traffic_class = 0;  // DSCP << 2 | ECN
  uint8_t hop_limit = 64;
  uint16_t vlan = 0;  // 0 = none
  // Its frames cross in memory shared with the peer's process (Port::reaches_in_memory) and have no
  // ICRC, on a port whose other frames have one.
  bool in_memory = false;
  uint32_t ingress = 0;  // interface or queue of a received frame, 0 = unknown

  bool operator==(const Path&) const = default;
};

// Payload that stayed in the sender's memory (ports with Capabilities::by_reference).
class RemoteMemory {
 public:
  // Copies `size` bytes from `address` of the sender's memory to `destination`. False if the sender
  // died or the memory is unmapped; then any part of the destination may have been written.
  virtual bool pull(void* destination, uint64_t address, size_t size) noexcept = 0;

 protected:
  ~RemoteMemory() = default;
};

// A received frame. The port owns `bytes`; the engine copies payload from it to its final address.
struct Frame {
  const Path* path = nullptr;            // the port's, valid until release
  const std::byte* bytes = nullptr;      // from the BTH on
  uint32_t length = 0;                   // bytes here, ICRC included if the port carries one
  uint16_t ip_id = 0;                    // IPv4 identification, or the best guess
  bool ip_id_known = true;               // false: the kernel does not report it, ip_id is a guess
  uint8_t ecn = 0;                       // the two ECN bits as received
  uint32_t cookie = 0;                   // for the port, in release()
  Instant timestamp = Instant::never();  // hardware or kernel receive time, never() = none

  // Payload apart from its headers: `more_length` payload bytes follow the `length` bytes here, at
  // `more`, without pad or ICRC. A port over shared memory copies headers, so that the sender
  // cannot change them, but not the payload. Not together with `remote`.
  const std::byte* more = nullptr;
  uint32_t more_length = 0;

  // By reference: `remote_length` payload bytes follow the `length` bytes here, in the sender's
  // memory at `remote_address`.
  RemoteMemory* remote = nullptr;
  uint64_t remote_address = 0;
  uint32_t remote_length = 0;
};

// A piece of memory to send.
struct Span {
  const std::byte* data = nullptr;
  uint32_t length = 0;
};

// Spans of one frame at most.
inline constexpr size_t kMaxSpans = 32;

// A frame to send: `head` (headers, and payload if the engine staged it), then `spans` (registered
// memory, only if the port can gather), then `tail` (pad and ICRC, if not in head).
struct TxFrame {
  const Path* path = nullptr;
  const std::byte* head = nullptr;  // consecutive frames often lie consecutively in memory
  uint32_t head_length = 0;
  uint32_t payload_length = 0;  // sum of the spans
  uint16_t ip_id = 0;           // the IPv4 identification that the ICRC was computed with: 0 starts
                                // a train, k continues it as its segment k (see Port::transmit)
  uint8_t span_count = 0;
  uint8_t tail_length = 0;      // 0..8
  uint8_t header_length = 0;    // bytes of headers in head, so that a port can separate payload
                                // (Frame::more); 0 = unknown: all of head
  uint8_t ecn = 0;              // overrides the low bits of path->traffic_class
  bool stable = false;          // spans stay unchanged until the request completes: may go by
                                // reference; otherwise the port copies before it returns
  bool signs = false;           // the port writes the ICRC over the last four bytes of the tail and
                                // sums spans and pad while copying (Capabilities::signs)
  uint32_t crc = 0;             // if signs: the raw CRC-32 of the bytes before the spans
  const Span* spans = nullptr;  // span_count of them, valid as long as head
  std::byte tail[8];

  uint32_t length() const {
    WEFT_DCHECK(tail_length <= sizeof tail && span_count <= kMaxSpans);
    return head_length + payload_length + tail_length;
  }
};

}  // namespace weft::transport
