// SPDX-License-Identifier: BSD-3-Clause
// See frame_copy.hpp.
#include "providers/port/ethernet/frame_copy.hpp"

#include <new>

#include "providers/port/ethernet/framing.hpp"

namespace weft::port::ethernet {

std::optional<FrameCopy> FrameCopy::of(const transport::TxFrame& frame) noexcept {
  FrameCopy copy{*frame.path, {}, frame.ip_id, frame.ecn};
  try {
    copy.bytes.resize(frame.length());
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  if (write_transport(copy.bytes.data(), frame) == nullptr) return std::nullopt;
  return copy;
}

transport::TxFrame FrameCopy::to_send() const noexcept {
  transport::TxFrame frame;
  frame.path = &path;
  frame.head = bytes.data();
  frame.head_length = static_cast<uint32_t>(bytes.size());
  frame.ip_id = ip_id;
  frame.ecn = ecn;
  return frame;
}

transport::Frame FrameCopy::as_received() const noexcept {
  transport::Frame frame{};
  frame.path = &path;
  frame.bytes = bytes.data();
  frame.length = static_cast<uint32_t>(bytes.size());
  frame.ip_id = ip_id;
  frame.ecn = ecn;
  return frame;
}

}  // namespace weft::port::ethernet
