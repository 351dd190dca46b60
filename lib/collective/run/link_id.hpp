// SPDX-License-Identifier: BSD-3-Clause
// The id of a link's request, which its completion returns: 32 bits of the link's index, 8 of what
// was posted, 24 of a number (a slot, a receive buffer, or pieces posted before).
#pragma once

#include <cstdint>

namespace weft::collective {

enum class IdKind : uint8_t { receive, piece, control, rendezvous };

inline constexpr uint32_t kIdNumberMask = 0xFFFFFF;

inline uint64_t make_id(uint32_t link, IdKind kind, uint32_t number) {
  return uint64_t{link} << 32 | uint64_t{static_cast<uint8_t>(kind)} << 24 | number;
}
inline IdKind kind_of(uint64_t id) { return static_cast<IdKind>(id >> 24 & 0xFF); }
inline uint32_t number_of(uint64_t id) { return static_cast<uint32_t>(id & kIdNumberMask); }

}  // namespace weft::collective
