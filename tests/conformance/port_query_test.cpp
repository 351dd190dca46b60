// SPDX-License-Identifier: BSD-3-Clause
// What a device says of its port, its GID table, its limits and its node GUID.
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

void table_and_port(Wire wire) {
  const Side side(device_string(wire));
  const DeviceAttributes& device = side.device.attributes();
  const Result<PortAttributes> port = side.device.query_port();
  if (!port) FAIL(port.error().message);
  CHECK(port->state == PortState::active);
  CHECK(port->active_mtu <= port->max_mtu);
  CHECK(port->active_mtu == device.active_mtu);
  CHECK(port->speed_mbps > 0);
  CHECK((port->width == 1 || port->width == 2 || port->width == 4 || port->width == 8 ||
         port->width == 12));
  CHECK(port->interface_index == device.interface_index);
  CHECK(port->interface_name.empty() == (port->interface_index == 0));
  const Result<std::vector<GidTableEntry>> table = side.device.query_gid_table();
  if (!table) FAIL(table.error().message);
  CHECK(port->gid_count == table->size());
  CHECK(std::any_of(table->begin(), table->end(),
                    [&](const GidTableEntry& entry) { return entry.gid == device.gid; }));
  for (size_t i = 0; i < table->size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK((*table)[i].index != (*table)[j].index);
}
WEFT_ON_EACH_PORT_AND_SRD(table_and_port, "a device describes its port and its GID table")

void own_address_first(Wire wire) {
  const Side side(device_string(wire));
  const std::vector<GidTableEntry> table = *side.device.query_gid_table();
  REQUIRE(!table.empty());
  CHECK(table[0].index == 0);
  CHECK(table[0].gid == side.device.attributes().gid);
  CHECK(table[0].interface_index == side.device.attributes().interface_index);
  for (const GidTableEntry& entry : table) CHECK(entry.type == GidType::roce_v2);
  // The other addresses of the interface, each once.
  const uint32_t interface = side.device.attributes().interface_index;
  ifaddrs* list = nullptr;
  REQUIRE(getifaddrs(&list) == 0);
  size_t addresses = 0;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next)
    addresses += at->ifa_addr != nullptr && interface != 0 &&
                 if_nametoindex(at->ifa_name) == interface &&
                 (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6);
  freeifaddrs(list);
  CHECK(table.size() >= addresses);
  CHECK(table.size() <= addresses + 1 + side.device.attributes().further_gids.size());
}
WEFT_ON_OUR_PORTS(own_address_first, "the GID table begins with the device's own address")
WEFT_ON_SRD_PORTS(own_address_first, "the GID table begins with the device's own address")

TEST_CASE("the port on the loopback interface") {
  const Side side("roce+udp:lo");
  const PortAttributes port = *side.device.query_port();
  CHECK(port.interface_name == "lo");
  CHECK(port.interface_index == if_nametoindex("lo"));
  CHECK(port.speed_mbps == 100'000);
  CHECK(port.width == 4);
}

TEST_CASE("the state, speed and addresses are those of the interface now") {
  const Namespace own;
  if (!own) WEFT_SKIP("port_query_test", "a network namespace needs root");
  REQUIRE(std::system("ip link add veth0 type veth peer name veth1 && "
                      "ip addr add 10.9.0.1/24 dev veth0 && ip link set veth0 up && "
                      "ip link set veth1 up") == 0);
  const Side side("roce+udp:10.9.0.1");
  CHECK(side.device.query_port()->state == PortState::active);
  CHECK(side.device.query_port()->speed_mbps == 10'000);  // of veth
  CHECK(side.device.query_port()->interface_name == "veth0");
  const size_t before = side.device.query_gid_table()->size();
  REQUIRE(std::system("ip addr add 10.9.0.7/24 dev veth0") == 0);
  const std::vector<GidTableEntry> table = *side.device.query_gid_table();
  REQUIRE(table.size() == before + 1);
  CHECK(table[0].gid == Gid::from_ipv4(10, 9, 0, 1));
  CHECK(table[1].gid == Gid::from_ipv4(10, 9, 0, 7));
  REQUIRE(std::system("ip link set veth0 down") == 0);
  CHECK(side.device.query_port()->state == PortState::down);
  REQUIRE(std::system("ip addr flush dev veth0") == 0);
  CHECK((*side.device.query_gid_table())[0].gid == Gid::from_ipv4(10, 9, 0, 1));
}

TEST_CASE("the node GUID is that of a device string, in every process") {
  const uint64_t guid = *node_guid("roce+udp:lo");
  const Side side("roce+udp:lo");
  CHECK(side.device.attributes().node_guid == guid);
  CHECK(*node_guid("roce+udp:lo,fault.loss=0.1") == guid);
  CHECK(*node_guid("srd+udp:lo") != guid);
  CHECK(*node_guid("roce+udp:eth0") != guid);
  CHECK((guid >> 56 & 3) == 2);  // locally administered, of one device
  CHECK(node_guid("roce+udp:lo,,").error().code == Code::invalid_argument);
  CHECK(node_guid("ibverbs:mlx5_0").error().code == Code::not_supported);
}

void limits_of_objects(Wire wire) {
  const Side side(device_string(wire));
  const DeviceAttributes& a = side.device.attributes();
  for (const uint64_t limit : {uint64_t{a.max_qp}, uint64_t{a.max_cq}, uint64_t{a.max_pd},
                               uint64_t{a.max_mr}, a.max_mr_size})
    CHECK(limit > 0);
  CHECK((a.max_ah > 0 || !a.has_ud));
  CHECK((a.max_srq > 0) == (side.pd.shared_receive_queue({.engine = side.engine}).ok()));
}
WEFT_ON_EACH_PORT_AND_SRD(limits_of_objects, "a device says how many objects it has")

}  // namespace
}  // namespace weft
