// SPDX-License-Identifier: BSD-3-Clause
// A copy of a frame to send, contiguous, that outlives the transmit() call.
#pragma once

#include <optional>
#include <vector>

#include "lib/transport/frame.hpp"

namespace weft::port::ethernet {

struct FrameCopy {
  transport::Path path;
  std::vector<std::byte> bytes;
  uint16_t ip_id = 0;
  uint8_t ecn = 0;

  // Nothing if allocation fails or memory that the frame refers to is unmapped.
  static std::optional<FrameCopy> of(const transport::TxFrame& frame) noexcept;

  // Both refer to this copy.
  transport::TxFrame to_send() const noexcept;
  transport::Frame as_received() const noexcept;
};

}  // namespace weft::port::ethernet
