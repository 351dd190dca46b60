// SPDX-License-Identifier: BSD-3-Clause
// How a receiver announces its posted receives to the sender, and how the sender says which bytes
// it has written. Nothing depends on the order in which packets or messages arrive.
//
// Announcement number n is written by one WRITE with immediate data n into entry n % kRingSize of
// the ring in the sender's memory; the completion at the sender says that all its bytes are there.
// The sender takes announcements in the order of their numbers and matches each of its sends to a
// receive of the oldest one by tag. It writes the payload with immediate data that names
// announcement, receive and the number of WRITEs (parts) that the send consists of; the receiver
// counts parts and bytes. Entry n is used again when all parts of n have arrived.
#pragma once

#include <array>
#include <cstdint>

#include "lib/adapters/nccl/calls.hpp"
#include "lib/adapters/nccl/messages.hpp"

namespace weft::nccl {

inline constexpr uint32_t kRingSize = 64;
static_assert((kRingSize & (kRingSize - 1)) == 0 && kRingSize >= kMaxRequests);

// WRITEs of a send on one lane, at most: the largest message follows from it. A receiver that
// divides by the smaller limit of both devices announces no receive that needs more.
inline constexpr uint32_t kMaxPartsOfReceive = 128;

struct AnnouncedReceive {
  uint64_t address = 0;
  uint64_t size = 0;
  std::array<uint32_t, kMaxLanes> rkeys{};
  int32_t tag = 0;
  uint32_t reserved = 0;
};
struct Announcement {
  uint32_t sequence = 0;
  uint32_t count = 0;
  std::array<AnnouncedReceive, kMaxReceives> receives{};
};
static_assert(sizeof(AnnouncedReceive) == 56 && sizeof(Announcement) == 8 + kMaxReceives * 56);

// Bytes of an announcement of `count` receives.
inline uint32_t announcement_bytes(uint32_t count) {
  return static_cast<uint32_t>(8 + count * sizeof(AnnouncedReceive));
}

// The immediate data of a part: receive in bits 0 to 2, the lower 16 bits of the announcement's
// number in 3 to 18, number of parts - 1 above.
inline constexpr uint32_t kMaxParts = 1u << 13;
static_assert(kMaxPartsOfReceive * kMaxLanes <= kMaxParts && kMaxReceives <= 8);
struct PartName {
  uint32_t sequence = 0;  // lower 16 bits
  uint32_t receive = 0;
  uint32_t parts = 1;

  static PartName of(uint32_t imm) { return {imm >> 3 & 0xFFFF, imm & 7, (imm >> 19) + 1}; }
  uint32_t imm() const { return (parts - 1) << 19 | (sequence & 0xFFFF) << 3 | receive; }
};

}  // namespace weft::nccl
