// SPDX-License-Identifier: BSD-3-Clause
// See frame_copy.hpp.
#include "providers/port/ethernet/frame_copy.hpp"

#include <cstring>
#include <new>

#include "lib/memory/guarded_copy.hpp"

namespace weft::port::ethernet {

std::optional<FrameCopy> FrameCopy::of(const engine::TxFrame& frame) noexcept {
  FrameCopy copy{*frame.path, {}, frame.ip_id, frame.ecn};
  try {
    copy.bytes.resize(frame.length());
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  std::byte* at = copy.bytes.data();
  if (frame.head_length != 0) std::memcpy(at, frame.head, frame.head_length);
  at += frame.head_length;
  for (uint32_t i = 0; i < frame.span_count; ++i) {
    if (!memory::copy_out(at, frame.spans[i].data, frame.spans[i].length)) return std::nullopt;
    at += frame.spans[i].length;
  }
  std::memcpy(at, frame.tail, frame.tail_length);
  return copy;
}

engine::TxFrame FrameCopy::to_send() const noexcept {
  engine::TxFrame frame;
  frame.path = &path;
  frame.head = bytes.data();
  frame.head_length = static_cast<uint32_t>(bytes.size());
  frame.ip_id = ip_id;
  frame.ecn = ecn;
  return frame;
}

engine::Frame FrameCopy::as_received() const noexcept {
  engine::Frame frame{};
  frame.path = &path;
  frame.bytes = bytes.data();
  frame.length = static_cast<uint32_t>(bytes.size());
  frame.ip_id = ip_id;
  frame.ecn = ecn;
  return frame;
}

}  // namespace weft::port::ethernet
