// SPDX-License-Identifier: BSD-3-Clause
// Parsing of the network header of a received datagram. The engine or the device has validated it.
#include "weft/ah.hpp"

#include <cstring>

namespace weft {

AddressVector sender_of(std::span<const std::byte, kNetworkHeaderLength> header) noexcept {
  const auto byte = [&header](size_t at) { return static_cast<uint8_t>(header[at]); };
  AddressVector sender;
  if (byte(0) >> 4 == 6) {  // IPv6: the source is at 8
    sender.traffic_class = static_cast<uint8_t>((byte(0) & 15) << 4 | byte(1) >> 4) & 0xFC;
    std::memcpy(sender.destination.bytes.data(), header.data() + 8, 16);
  } else {  // IPv4 at 20: its source is at 12
    sender.traffic_class = byte(21) & 0xFC;
    sender.destination = Gid::from_ipv4(byte(32), byte(33), byte(34), byte(35));
  }
  return sender;
}

}  // namespace weft
