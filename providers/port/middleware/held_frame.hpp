// SPDX-License-Identifier: BSD-3-Clause
// Copies of frames in one piece, for middleware that changes or keeps frames.
#pragma once

#include "lib/transport/frame.hpp"

namespace weft::middleware {

// A frame in a buffer of our own.
struct HeldFrame {
  static constexpr uint32_t kCapacity = 4096 + 192;  // a frame of MTU 4096 and a pad
  transport::Path path;
  uint32_t length = 0;
  uint16_t ip_id = 0;
  bool ip_id_known = true;
  uint8_t ecn = 0;
  std::byte bytes[kCapacity];
};

// Copies a frame into `held`. False: it is longer than the buffer, or its memory has gone.
bool assemble(HeldFrame& held, const transport::TxFrame& frame) noexcept;
bool assemble(HeldFrame& held, const transport::Frame& frame) noexcept;

// The frame in `held`, which outlives it.
transport::TxFrame to_send(const HeldFrame& held) noexcept;
transport::Frame to_receive(const HeldFrame& held) noexcept;

// The opcode of `length` bytes, behind a telemetry block if there is one; 0xFF if they end before.
uint8_t opcode_of(const std::byte* bytes, uint32_t length, const transport::Path& path) noexcept;

}  // namespace weft::middleware
