// SPDX-License-Identifier: BSD-3-Clause
// The interface of the default route, of tables that kernels print; lists of devices; the address
// that processes share.
#include <sstream>
#include <string>

#include "lib/base/device_choice.hpp"
#include "tests/support/catch.hpp"

namespace weft::base {
namespace {

constexpr const char* kHeading =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

std::string interface_of(const std::string& rows) {
  std::istringstream routes(kHeading + rows);
  return interface_of_default_route(routes);
}

TEST_CASE("the default route with the lowest metric names the interface") {
  const std::string dear = "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n";
  const std::string cheap = "eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
  const std::string subnet = "eth1\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
  const std::string half = "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";
  CHECK(interface_of(dear) == "wlan0");
  CHECK(interface_of(dear + cheap) == "eth0");
  CHECK(interface_of(subnet + half + cheap + dear) == "eth0");
  CHECK(interface_of(subnet + half) == "lo");
}

TEST_CASE("a default route that is down or refuses packets names no interface") {
  const std::string down = "eth0\t00000000\t0101A8C0\t0002\t0\t0\t0\t00000000\t0\t0\t0\n";
  const std::string unreachable = "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n";
  const std::string dear = "eth1\t00000000\t0101A8C0\t0003\t0\t0\t900\t00000000\t0\t0\t0\n";
  CHECK(interface_of(down) == "lo");
  CHECK(interface_of(unreachable) == "lo");
  CHECK(interface_of(down + unreachable + dear) == "eth1");
  CHECK(interface_of("") == "lo");
  CHECK(interface_of("eth0\t00000000\n") == "lo");
}

TEST_CASE("a list of devices is split at each semicolon, empty parts too") {
  using List = std::vector<std::string>;
  CHECK(split_device_list("roce+udp:eth0;roce+shm") == List{"roce+udp:eth0", "roce+shm"});
  CHECK(split_device_list("") == List{""});
  CHECK(split_device_list("a;;b;") == List{"a", "", "b", ""});
}

TEST_CASE("only a device on loopback gets an address that processes share") {
  CHECK(with_shared_address("roce", "roce") == "roce,udp.shared=1");
  CHECK(with_shared_address("srd+udp:lo,cc=none", "srd") == "srd+udp:lo,udp.shared=1,cc=none");
  CHECK(with_shared_address("roce+udp:lo,udp.shared=0", "roce") == "roce+udp:lo,udp.shared=0");
  CHECK(with_shared_address("roce+udp:eth0", "roce") == "roce+udp:eth0");
  CHECK(with_shared_address("roce+auto:lo", "roce") == "roce+auto:lo,udp.shared=1");
  CHECK(with_shared_address("roce+auto:eth0", "roce") == "roce+auto:eth0");
  CHECK(with_shared_address("srd", "roce") == "srd");
  CHECK(with_shared_address("roce+shm", "roce") == "roce+shm,shm.shared=1");
  CHECK(with_shared_address("roce+shm:a,pcap=x", "roce") == "roce+shm:a,shm.shared=1,pcap=x");
  CHECK(with_shared_address("roce+shm:a,shm.shared=0", "roce") == "roce+shm:a,shm.shared=0");
}

}  // namespace
}  // namespace weft::base
