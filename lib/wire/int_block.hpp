// SPDX-License-Identifier: BSD-3-Clause
// In-band network telemetry between weft peers: a block of fixed size before the BTH of each frame
// of a queue pair whose two sides agreed to it, on a UDP port of its own. Switches write a record
// into it; the receiver sends it back in its acknowledgements. INT.md in this folder documents
// every byte; this file is its translation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/bytes.hpp"

namespace weft::wire {

inline constexpr uint16_t kIntUdpPort = 4796;
inline constexpr uint8_t kIntVersion = 1;
inline constexpr uint8_t kIntEcho = 0x80;  // flag: a block on its way back
inline constexpr size_t kIntHops = 5;

// What one hop says. The counters wrap; only differences count.
struct IntRecord {
  base::Be32 rate_mbps;    // of the port
  base::Be48 time_ns;      // when the frame began to leave, of the hop's own clock
  base::Be48 sent_bytes;   // what the port had sent before
  base::Be32 queue_bytes;  // what was left behind in its queue
};
static_assert(sizeof(IntRecord) == 20);

struct IntBlock {
  uint8_t version = kIntVersion;
  uint8_t flags = 0;
  uint8_t hops = 0;    // that stamped it; those beyond kIntHops have no record
  uint8_t digest = 0;  // the code of the fullest hop's utilisation (PINT); 0: no hop gives one
  base::Be16 path;     // the numbers of all hops, XORed
  base::Be16 marks;    // of an echo: frames of the queue pair that met ECN so far, wrapping
  IntRecord records[kIntHops];

  bool is_echo() const noexcept { return (flags & kIntEcho) != 0; }
  size_t count() const noexcept { return hops < kIntHops ? hops : kIntHops; }
};
static_assert(sizeof(IntBlock) == 108 && alignof(IntBlock) == 1);

// The block that `bytes` begin with; null if it is no block of this version.
inline const IntBlock* find_int(const std::byte* bytes, uint32_t length) noexcept {
  if (length < sizeof(IntBlock)) return nullptr;
  const auto* const block = reinterpret_cast<const IntBlock*>(bytes);
  return block->version == kIntVersion ? block : nullptr;
}

// What hop number `hop` does to a frame that leaves it. An echo passes unchanged. `digest`: of its
// own utilisation; 0: it has none.
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
