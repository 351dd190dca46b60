// SPDX-License-Identifier: BSD-3-Clause
// The dpdk port alone: devices of one process that have a name in common, an empty pool of buffers,
// a device that is left as it was, drivers that nothing else opens. Whole protocols over it:
// tests/conformance, tests/interop.
#include "providers/port/dpdk/dpdk_port.hpp"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <set>

#include "providers/port/dpdk/memif_reconnect.hpp"
#include "providers/port/dpdk/pci.hpp"
#include "tests/ports/dpdk/dpdk_ports.hpp"

using namespace dpdk_test;

namespace {

// Devices that are promiscuous; these calls stand before DPDK's.
std::set<uint16_t> promiscuous;

}  // namespace

extern "C" {
int rte_eth_promiscuous_get(uint16_t device) { return promiscuous.count(device) != 0 ? 1 : 0; }
int rte_eth_promiscuous_enable(uint16_t device) { return promiscuous.insert(device), 0; }
int rte_eth_promiscuous_disable(uint16_t device) { return promiscuous.erase(device), 0; }
}

namespace {

TEST_CASE("dpdk port: net_ring loops all frames back, net_null none") {
  const Bytes bytes = frame_bytes(1, 300);
  for (const std::string driver : {"net_ring", "net_null"}) {
    const std::unique_ptr<Port> port =
        open_dpdk(driver, {{"address", "10.83.0.1"}, {"neighbour", "10.83.0.2@02:00:00:00:00:02"}});
    Path path = path_between(*port, *port);
    path.destination = Gid::from_ipv4(10, 83, 0, 2);
    REQUIRE(port->transmit({{whole_frame(path, bytes)}}) == 1);
    Frame frames[64];
    CHECK(port->receive(frames) == 0);
    CHECK(counter(*port, "dpdk_tx_frames") == 1);
    if (driver == "net_ring") CHECK(counter(*port, "dpdk_rx_foreign") == 1);
  }
}

TEST_CASE("dpdk port: an empty pool loses nothing, and is counted") {
  const Ends ends;
  Port &from = *ends.b, &to = *ends.a;  // the client has room in the rings at once
  const Bytes bytes = frame_bytes(1, 300);
  const Path path = path_between(from, to);
  const TxFrame frames[] = {whole_frame(path, bytes), whole_frame(path, bytes)};
  rte_mempool* const pool = device_of(from).pool(0);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* const buffer = rte_pktmbuf_alloc(pool)) all.push_back(buffer);
  CHECK(from.transmit(frames) == 0);
  CHECK(counter(from, "dpdk_tx_no_buffer") == 1);
  CHECK(counter(from, "dpdk_buffers_free") == 0);
  rte_pktmbuf_free(all.back());  // one is not enough for two at once
  CHECK(from.transmit(frames) == 0);
  CHECK(from.transmit({frames, 1}) == 1);
  CHECK(arrived(to, 1).size() == 1);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size() - 1));
  CHECK(from.transmit(frames) == 2);
  CHECK(arrived(to, 2).size() == 2);
  CHECK(counter(from, "dpdk_tx_no_buffer") == 2);
  CHECK(counter(from, "dpdk_buffers_free") == all.size());
}

TEST_CASE("dpdk port: a name belongs to one device at a time") {
  std::unique_ptr<Port> one = open_dpdk("net_null90");
  const Opened other = try_dpdk("net_null90");
  REQUIRE(!other);
  CHECK(other.error().code == Code::address_in_use);
  CHECK(other.error().message.find("net_null90 already") != std::string::npos);
  const std::unique_ptr<Port> numbered = open_dpdk("net_null");
  one.reset();
  one = open_dpdk("net_null90");
}

TEST_CASE("dpdk port: a used device number is skipped") {
  std::vector<std::unique_ptr<Port>> ports;
  ports.push_back(open_dpdk("net_null"));
  char name[RTE_ETH_NAME_MAX_LEN] = "";
  REQUIRE(rte_eth_dev_get_name_by_port(device_of(*ports[0]).port(), name) == 0);
  const int number = std::atoi(name + std::strlen("net_null"));
  for (int next = number + 1; next < number + 3; ++next)
    ports.push_back(open_dpdk("net_null" + std::to_string(next)));
  ports.push_back(open_dpdk("net_null"));
}

TEST_CASE("dpdk port: a device that was not promiscuous is not when it is closed") {
  std::unique_ptr<Port> port = open_dpdk("net_null");
  const uint16_t device = device_of(*port).port();
  CHECK(promiscuous.count(device) == 1);
  port.reset();
  CHECK(promiscuous.count(device) == 0);
}

TEST_CASE("dpdk port: later devices cannot change the EAL options of the first") {
  const std::unique_ptr<Port> first = open_dpdk("net_null");
  const std::pair<const char*, const char*> kOther[] = {{"memory", "100"}, {"eal", "--no-hpet"}};
  for (const auto& [key, value] : kOther) {
    const Opened later = try_dpdk("net_null", {{key, value}});
    REQUIRE(!later);
    CHECK(later.error().code == Code::invalid_argument);
    const std::string named = "dpdk." + std::string(key) + "=" + value;
    CHECK(later.error().message.find(named) == 0);
  }
  CHECK(port::open_dpdk_port({"net_null", {}}));
  const Opened huge = port::open_dpdk_port({"net_null", {{"huge", "1"}}});
  REQUIRE(!huge);
  CHECK(huge.error().message.find("dpdk.huge=1") == 0);
}

TEST_CASE("dpdk port: PCI addresses") {
  using port::dpdk::pci_address;
  CHECK(pci_address("0000:3b:00.1") == "0000:3b:00.1");
  CHECK(pci_address("3B:00.1") == "0000:3b:00.1");
  CHECK(pci_address("00:5.0") == "0000:00:05.0");
  CHECK(pci_address("10000:e1:00.0") == "10000:e1:00.0");  // behind Intel's VMD
  for (const char* const none : {"net_null", "", "3b:00", "3b:00.1x", "0000:3b:00.1 ", "::."})
    CHECK(pci_address(none).empty());
}

TEST_CASE("dpdk port: a pause blocks bursts only while it lasts") {
  port::dpdk::Pause pause;
  CHECK(!pause.holds());
  pause.request(1);
  CHECK(!pause.is_granted(1));
  CHECK(pause.holds());
  CHECK(pause.is_granted(1));
  pause.end();
  CHECK(!pause.holds());
  pause.request(2);
  CHECK(!pause.is_granted(2));  // the answer to the first one does not count
  CHECK(pause.holds());
  CHECK(pause.is_granted(2));
}

}  // namespace
