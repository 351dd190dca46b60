// SPDX-License-Identifier: BSD-3-Clause
// See shared_address.hpp.
#include "lib/transport/shared_address.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/bytes.hpp"
#include "lib/memory/guarded_copy.hpp"

namespace weft::transport {
namespace {

template <class Integer>
Integer load(const std::byte* at) noexcept {
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

Addressee addressee_of(const std::byte* frame, uint32_t length) noexcept {
  if (names_queue_pair(frame, length)) return {slot_by_queue_pair(frame)};
  if (length < MadOffsets::kEnd) return {};
  WEFT_DCHECK(frame[kQpnTopByte] == std::byte{0});
  switch (uint16_t{load<base::Be16>(frame + MadOffsets::kAttribute)}) {
    case MadOffsets::kReq:
    case MadOffsets::kSidrReq:
      return {0, load<base::Be64>(frame + MadOffsets::kService)};
    case MadOffsets::kSidrRep:
      return {static_cast<Slot>(frame[MadOffsets::kRequestId])};
    default:
      return {static_cast<Slot>(frame[MadOffsets::kRemoteId])};
  }
}

Addressee addressee_of(const TxFrame& frame) noexcept {
  if (names_queue_pair(frame.head, frame.head_length)) return {slot_by_queue_pair(frame.head)};
  std::array<std::byte, MadOffsets::kEnd> start;
  uint32_t length = std::min<uint32_t>(frame.head_length, start.size());
  std::memcpy(start.data(), frame.head, length);
  for (uint32_t i = 0; i < frame.span_count && length < start.size(); ++i) {
    const uint32_t part = std::min<uint32_t>(frame.spans[i].length, start.size() - length);
    // It may be memory of the program, that sends to queue pair 1 itself.
    if (!memory::copy_out(start.data() + length, frame.spans[i].data, part)) return {};
    length += part;
  }
  return addressee_of(start.data(), length);
}

}  // namespace weft::transport
