// SPDX-License-Identifier: BSD-3-Clause
// See held_frame.hpp.
#include "providers/port/middleware/held_frame.hpp"

#include <algorithm>
#include <cstring>

#include "lib/memory/guarded_copy.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::middleware {

using transport::Frame;
using transport::TxFrame;

namespace {

// Puts a frame together in one piece.
class Assembly {
 public:
  explicit Assembly(HeldFrame& frame) noexcept : frame_(frame) { frame.length = 0; }
  std::byte* room(uint32_t size) noexcept {
    good_ = good_ && size <= HeldFrame::kCapacity - frame_.length;
    if (!good_) return nullptr;
    frame_.length += size;
    return frame_.bytes + frame_.length - size;
  }
  void add(const std::byte* data, uint32_t size) noexcept {
    std::byte* const at = room(size);
    if (at != nullptr && size != 0) std::memcpy(at, data, size);
  }
  void add_user(const std::byte* data, uint32_t size) noexcept {
    std::byte* const at = room(size);
    if (at != nullptr) good_ = memory::copy_out(at, data, size);
  }
  bool good() const noexcept { return good_; }
  void spoil() noexcept { good_ = false; }

 private:
  HeldFrame& frame_;
  bool good_ = true;
};

}  // namespace

// Telemetry may stand before the BTH.
uint8_t opcode_of(const std::byte* bytes, uint32_t length, const transport::Path& path) noexcept {
  const size_t bth = path.destination_port == wire::kIntUdpPort ? sizeof(wire::IntBlock) : 0;
  return length <= bth ? 0xFF : static_cast<uint8_t>(bytes[bth]);
}

bool assemble(HeldFrame& held, const TxFrame& frame) noexcept {
  held.path = *frame.path;
  held.ip_id = frame.ip_id;
  held.ecn = frame.ecn;
  Assembly whole(held);
  whole.add(frame.head, frame.head_length);
  for (uint32_t i = 0; i < frame.span_count; ++i)
    whole.add_user(frame.spans[i].data, frame.spans[i].length);
  whole.add(frame.tail, frame.tail_length);
  return whole.good();
}

bool assemble(HeldFrame& held, const Frame& frame) noexcept {
  held.path = *frame.path;
  held.ip_id = frame.ip_id;
  held.ip_id_known = frame.ip_id_known;
  held.ecn = frame.ecn;
  const bool apart = frame.more_length != 0 || frame.remote != nullptr;
  const uint32_t headers =
      apart
          ? std::min<uint32_t>(
                frame.length,
                wire::opcode_info(opcode_of(frame.bytes, frame.length, *frame.path)).header_length)
          : frame.length;
  Assembly whole(held);
  whole.add(frame.bytes, headers);
  whole.add_user(frame.more, frame.more_length);
  if (frame.remote != nullptr) {
    std::byte* const at = whole.room(frame.remote_length);
    if (at == nullptr || !frame.remote->pull(at, frame.remote_address, frame.remote_length))
      whole.spoil();
  }
  whole.add(frame.bytes + headers, frame.length - headers);
  return whole.good();
}

TxFrame to_send(const HeldFrame& held) noexcept {
  TxFrame frame;
  frame.path = &held.path;
  frame.head = held.bytes;
  frame.head_length = held.length;
  frame.ip_id = held.ip_id;
  frame.ecn = held.ecn;
  return frame;
}

Frame to_receive(const HeldFrame& held) noexcept {
  Frame frame;
  frame.path = &held.path;
  frame.bytes = held.bytes;
  frame.length = held.length;
  frame.ip_id = held.ip_id;
  frame.ip_id_known = held.ip_id_known;
  frame.ecn = held.ecn;
  return frame;
}

}  // namespace weft::middleware
