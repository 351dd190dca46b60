// SPDX-License-Identifier: BSD-3-Clause
// In-band network telemetry between weft peers: a block of fixed size before the BTH of each frame
// of a queue pair that negotiated it, on a separate UDP port. Switches add records; the receiver
// returns the block in its acknowledgements. The format is documented in INT.md in this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/bytes.hpp"

namespace weft::wire {

inline constexpr uint16_t kIntUdpPort = 4796;
inline constexpr uint8_t kIntVersion = 1;
inline constexpr uint8_t kIntEcho = 0x80;  // flag: a block returned to the sender
inline constexpr size_t kIntHops = 5;

// The record of one hop. The counters wrap; use differences only.
struct IntRecord {
  base::Be32 rate_mbps;    // rate of the egress port
  base::Be48 time_ns;      // when transmission of the frame began, on the hop's clock
  base::Be48 sent_bytes;   // bytes sent by the port before
  base::Be32 queue_bytes;  // bytes left in its queue
};
static_assert(sizeof(IntRecord) == 20);

struct IntBlock {
  uint8_t version = kIntVersion;
  uint8_t flags = 0;
  uint8_t hops = 0;    // number of hops; those beyond kIntHops have no record
  uint8_t digest = 0;  // code of the highest utilisation of a hop (PINT); 0: none
  base::Be16 path;     // XOR of the numbers of all hops
  base::Be16 marks;    // echo: ECN-marked frames of the queue pair so far, wrapping
  IntRecord records[kIntHops];

  bool is_echo() const noexcept { return (flags & kIntEcho) != 0; }
  size_t count() const noexcept { return hops < kIntHops ? hops : kIntHops; }
};
static_assert(sizeof(IntBlock) == 108 && alignof(IntBlock) == 1);

// The block at the start of `bytes`; null if there is no block of this version.
inline const IntBlock* find_int(const std::byte* bytes, uint32_t length) noexcept {
  if (length < sizeof(IntBlock)) return nullptr;
  const auto* const block = reinterpret_cast<const IntBlock*>(bytes);
  return block->version == kIntVersion ? block : nullptr;
}

// Adds the record of hop number `hop` to a frame, as a switch does. An echo is not changed.
// `digest`: code of the hop's utilisation; 0: none.
inline void stamp_int(std::byte* bytes, uint32_t length, uint16_t hop, const IntRecord& record,
                      uint8_t digest = 0) noexcept {
  if (find_int(bytes, length) == nullptr) return;
  IntBlock& block = *reinterpret_cast<IntBlock*>(bytes);
  if (block.is_echo() || block.hops == UINT8_MAX) return;
  if (block.hops < kIntHops) block.records[block.hops] = record;
  ++block.hops;
  block.path = block.path ^ hop;
  if (digest > block.digest) block.digest = digest;
}

}  // namespace weft::wire
