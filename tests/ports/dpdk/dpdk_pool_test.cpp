// SPDX-License-Identifier: BSD-3-Clause
// Packet buffers: as many as a driver and a port can hold at once, so that many devices fit in the
// memory of a process; and enough for all its rings full.
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "providers/port/dpdk/pool.hpp"
#include "tests/ports/dpdk/dpdk_ports.hpp"

using namespace dpdk_test;
using port::dpdk::buffers_needed;

namespace {

unsigned needed(const std::string& device, const std::string& arguments = {}, uint32_t queues = 1) {
  port::dpdk::Options options;
  options.device = device;
  options.device_arguments = arguments;
  options.queues = queues;
  return buffers_needed(options, 1024, 1024);
}

TEST_CASE("dpdk pool: what the driver's rings hold, and the bursts of a port") {
  CHECK(needed("net_memif0") == 512);
  CHECK(needed("net_vhost1") == 512);
  CHECK(needed("net_tap0") == 2560);
  CHECK(needed("0000:3b:00.0") == 2560);
  CHECK(needed("net_memif0", "zero-copy=yes") == 2560);
  CHECK(needed("net_memif0", "zero-copy=yes,rsize=12") == 8704);
  CHECK(needed("net_memif0", "", 2) == 1536);
  CHECK(needed("net_memif0", "", 4) == 512 + 3 * 1024);
}

TEST_CASE("dpdk pool: thirty devices in 192 MiB") {
  std::vector<std::unique_ptr<Port>> ports;
  while (ports.size() < 30) ports.push_back(open_dpdk("net_null", {{"memory", "192"}}));
  CHECK(counter(*ports.back(), "dpdk_buffers_free") == 512);
}

TEST_CASE("dpdk pool: full rings leave enough mbufs for receiving and sending") {
  const std::unique_ptr<Port> port = open_dpdk(
      "net_ring",
      {{"memory", "192"}, {"address", "10.83.0.1"}, {"neighbour", "10.83.0.2@02:00:00:00:00:02"}});
  Path path = path_between(*port, *port);
  path.destination = Gid::from_ipv4(10, 83, 0, 2);
  const Bytes bytes = frame_bytes(1, 4000);
  const std::vector<TxFrame> frames(64, whole_frame(path, bytes));
  size_t sent = 0;
  for (size_t now = 64; now == 64; sent += now) now = port->transmit(frames);
  CHECK(sent == 1023);  // what the ring of this driver holds
  CHECK(counter(*port, "dpdk_tx_no_buffer") == 0);
  CHECK(counter(*port, "dpdk_buffers_free") >= 4 * 64);
}

}  // namespace
