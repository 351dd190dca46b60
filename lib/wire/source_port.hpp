// SPDX-License-Identifier: BSD-3-Clause
// The UDP source port of RoCEv2 packets: entropy by which switches choose among paths.
#pragma once

#include <cstdint>

namespace weft::wire {

inline constexpr uint16_t kFirstSourcePort = 0xC000;  // the 16,384 dynamic ports

// The port that `entropy` selects by its low 14 bits.
constexpr uint16_t source_port_of(uint32_t entropy) noexcept {
  return static_cast<uint16_t>(kFirstSourcePort | (entropy & 0x3FFF));
}
// The port of an address vector's flow label, of whose 20 bits all count, as Linux computes it
// (rdma_flow_label_to_udp_sport). //= roce:C-AV-95 roce:C-AV-118
constexpr uint16_t source_port_of_label(uint32_t flow_label) noexcept {
  return source_port_of(flow_label ^ flow_label >> 14);
}
// The port of two connected queue pairs without a flow label, the same in both directions, as Linux
// computes it (rdma_get_udp_sport).
constexpr uint16_t source_port_of_numbers(uint32_t own, uint32_t peer) noexcept {
  uint64_t mixed = uint64_t{own} * peer;
  mixed ^= mixed >> 20;
  mixed ^= mixed >> 40;
  return source_port_of_label(mixed & 0xFFFFF);
}

}  // namespace weft::wire
