// SPDX-License-Identifier: BSD-3-Clause
// What a device says about a frame, and how it brings it: in several buffers, with a word about its
// UDP checksum.
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "lib/wire/encapsulation.hpp"
#include "tests/ports/dpdk/dpdk_ports.hpp"

using namespace dpdk_test;

namespace {

const Keys kKeys = {{"address", "10.83.0.1"}};

// A whole frame to the port, as another host sends it.
Bytes frame_to(const Port& port, const Bytes& transport, uint16_t checksum, uint16_t vlan = 0) {
  wire::Outer outer;
  outer.mac_destination = device_of(port).mac();
  outer.vlan = vlan;
  outer.source = port.address().is_ipv4() ? Gid::from_ipv4(10, 83, 0, 2) : port.address();
  outer.destination = port.address();
  outer.udp_checksum = checksum;
  const auto length = static_cast<uint32_t>(transport.size());
  Bytes bytes(wire::outer_length(outer) + length);
  const uint32_t head = wire::emit_outer(bytes.data(), outer, length);
  std::memcpy(bytes.data() + head, transport.data(), length);
  return bytes;
}

// Puts a frame into the device's ring, as a chain of buffers with `piece` bytes each.
void arrive(const Port& port, const Bytes& frame, size_t piece, uint64_t flags = 0) {
  rte_mempool* const pool = device_of(port).pool(0);
  rte_mbuf* head = nullptr;
  for (size_t at = 0; at < frame.size(); at += piece) {
    rte_mbuf* const next = rte_pktmbuf_alloc(pool);
    REQUIRE(next != nullptr);
    const auto length = static_cast<uint16_t>(std::min(piece, frame.size() - at));
    std::memcpy(rte_pktmbuf_append(next, length), frame.data() + at, length);
    if (head == nullptr)
      head = next;
    else
      REQUIRE(rte_pktmbuf_chain(head, next) == 0);
  }
  head->ol_flags |= flags;
  REQUIRE(rte_eth_tx_burst(device_of(port).port(), 0, &head, 1) == 1);
}

TEST_CASE("dpdk chains: a multi-segment mbuf is one frame") {
  const std::unique_ptr<Port> port = open_dpdk("net_ring", kKeys);
  const uint64_t free = counter(*port, "dpdk_buffers_free");
  std::vector<Bytes> sent;
  for (const size_t piece : {size_t{1}, size_t{50}, size_t{700}, size_t{5000}}) {
    sent.push_back(frame_bytes(static_cast<uint32_t>(piece), 1500));
    arrive(*port, frame_to(*port, sent.back(), 0), piece);
  }
  const std::vector<Got> got = arrived(*port, sent.size());
  REQUIRE(got.size() == sent.size());
  for (size_t i = 0; i < sent.size(); ++i) CHECK(got[i].bytes == sent[i]);
  CHECK(counter(*port, "dpdk_rx_joined") == 3);
  CHECK(counter(*port, "dpdk_buffers_free") == free);
}

TEST_CASE("dpdk chains: buffers that are smaller than frames, over a memif") {
  const std::string socket = "/tmp/weft-chains-" + std::to_string(getpid());
  const std::unique_ptr<Port> to =
      open_dpdk("net_memif", {{"socket", socket}, {"address", "10.83.0.1"}, {"mtu", "256"}});
  const std::unique_ptr<Port> from = open_dpdk(
      "net_memif",
      {{"socket", socket}, {"address", "10.83.0.2"}, {"neighbour", "10.83.0.1@02:00:00:00:00:01"}});
  REQUIRE(device_of(*to).room() < 4000);
  const Path path = path_between(*from, *to);
  std::vector<Bytes> sent;
  std::vector<TxFrame> frames;
  for (uint32_t i = 0; i < 64; ++i) sent.push_back(frame_bytes(i, 1900 + 33 * i));
  for (const Bytes& bytes : sent) frames.push_back(whole_frame(path, bytes));
  REQUIRE(from->transmit(frames) == sent.size());
  const std::vector<Got> got = arrived(*to, sent.size());
  REQUIRE(got.size() == sent.size());
  for (size_t i = 0; i < sent.size(); ++i) CHECK(got[i].bytes == sent[i]);
  CHECK(counter(*to, "dpdk_rx_joined") > 50);
  const Bytes longer = frame_bytes(1, 4000);
  REQUIRE(from->transmit({{whole_frame(path, longer)}}) == 1);
  CHECK(arrived(*to, 1).size() == 1);
}

TEST_CASE("dpdk chains: a chain longer than the largest frame is dropped") {
  const std::unique_ptr<Port> port = open_dpdk("net_ring", kKeys);
  const uint64_t free = counter(*port, "dpdk_buffers_free");
  arrive(*port, frame_to(*port, frame_bytes(1, 9000), 0), 3000);
  Frame frames[64];
  CHECK(port->receive(frames) == 0);
  port->release({});
  CHECK(counter(*port, "dpdk_rx_malformed") == 1);
  CHECK(counter(*port, "dpdk_buffers_free") == free);
}

// How many are taken of a frame without a checksum, one with the right one, one with a wrong one.
std::vector<size_t> taken(Port& port, uint64_t flags) {
  const Bytes bytes = frame_bytes(1, 300);
  wire::Outer outer;
  outer.source = port.address().is_ipv4() ? Gid::from_ipv4(10, 83, 0, 2) : port.address();
  outer.destination = port.address();
  const uint16_t right = wire::udp_checksum(outer, bytes.data(), 300);
  std::vector<size_t> counts;
  for (const int checksum : {0, int{right}, right ^ 0x1100}) {
    arrive(port, frame_to(port, bytes, static_cast<uint16_t>(checksum)), 5000, flags);
    const std::vector<Got> got = arrived(port, 1, 1);
    counts.push_back(got.size());
    if (!got.empty()) CHECK(got[0].bytes == bytes);
  }
  return counts;
}

TEST_CASE("dpdk chains: a checksum that the device verified is not verified again") {
  using Counts = std::vector<size_t>;
  for (const std::string address : {"10.83.0.1", "fe80::1"}) {
    const std::unique_ptr<Port> port = open_dpdk("net_ring", {{"address", address}});
    CHECK(taken(*port, 0) == Counts{1, 1, 0});
    CHECK(taken(*port, RTE_MBUF_F_RX_L4_CKSUM_GOOD) == Counts{1, 1, 1});
    CHECK(taken(*port, RTE_MBUF_F_RX_L4_CKSUM_NONE) == Counts{1, 1, 1});
    CHECK(taken(*port, RTE_MBUF_F_RX_L4_CKSUM_BAD) == Counts{1, 1, 0});
  }
}

TEST_CASE("dpdk chains: behind a VLAN tag too") {
  const std::unique_ptr<Port> port =
      open_dpdk("net_ring", {{"address", "10.83.0.1"}, {"vlan", "7"}});
  const Bytes bytes = frame_bytes(1, 300);
  arrive(*port, frame_to(*port, bytes, 0x1234, 7), 5000, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  const std::vector<Got> got = arrived(*port, 1);
  REQUIRE(got.size() == 1);
  CHECK(got[0].bytes == bytes);
}

}  // namespace
