// SPDX-License-Identifier: BSD-3-Clause
// Ethernet addresses of multicast groups, as the RFCs spell them.
#include "providers/port/ethernet/groups.hpp"
#include "tests/support/catch.hpp"

using weft::parse_gid;
using weft::port::ethernet::mac_of_group;
using weft::wire::MacAddress;

TEST_CASE(
    "a multicast group has the Ethernet address of RFC 1112 and RFC 2464, C-AV-135 C-OPS-87") {
  CHECK(mac_of_group(*parse_gid("224.0.0.1")) == MacAddress{0x01, 0x00, 0x5E, 0x00, 0x00, 0x01});
  CHECK(mac_of_group(*parse_gid("239.255.2.3")) == MacAddress{0x01, 0x00, 0x5E, 0x7F, 0x02, 0x03});
  CHECK(mac_of_group(*parse_gid("ff02::1")) == MacAddress{0x33, 0x33, 0x00, 0x00, 0x00, 0x01});
  CHECK(mac_of_group(*parse_gid("ff15::a1b2:c3d4")) ==
        MacAddress{0x33, 0x33, 0xA1, 0xB2, 0xC3, 0xD4});
}
