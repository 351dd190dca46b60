// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups that a port which sees whole Ethernet frames has joined.
#pragma once

#include <algorithm>
#include <vector>

#include "lib/wire/encapsulation.hpp"
#include "weft/types.hpp"

namespace weft::port::ethernet {

// The Ethernet address that a multicast group has (RFC 1112 6.4, RFC 2464 7).
//= roce:C-AV-135
inline wire::MacAddress mac_of_group(const Gid& group) noexcept {
  const std::array<uint8_t, 16>& b = group.bytes;
  if (group.is_ipv4()) return {0x01, 0x00, 0x5E, static_cast<uint8_t>(b[13] & 0x7F), b[14], b[15]};
  return {0x33, 0x33, b[12], b[13], b[14], b[15]};
}

class Groups {
 public:
  void add(const Gid& group) { joined_.push_back(group); }
  void remove(const Gid& group) noexcept { std::erase(joined_, group); }
  bool has(const Gid& address) const noexcept {
    return std::find(joined_.begin(), joined_.end(), address) != joined_.end();
  }

 private:
  std::vector<Gid> joined_;
};

}  // namespace weft::port::ethernet
