// SPDX-License-Identifier: BSD-3-Clause
// Payload that a device reads in registered memory: the buffers that it gets point there, what
// leaves is the same as a copy, and memory that goes takes no frame with it.
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "lib/memory/guarded_copy.hpp"
#include "providers/port/dpdk/in_place.hpp"
#include "providers/port/ethernet/framing.hpp"
#include "tests/ports/dpdk/dpdk_ports.hpp"

using namespace dpdk_test;

namespace {

constexpr uint32_t kOuter = 14 + 20 + 8;

const Keys kKeys = {
    {"address", "10.83.0.1"}, {"neighbour", "10.83.0.2@02:00:00:00:00:02"}, {"in_place", "1"}};

Keys keys_with(const std::string& in_place) {
  Keys keys = kKeys;
  keys.back().second = in_place;
  return keys;
}

// A frame that names memory; three bytes of pad and the ICRC are the port's.
struct Message {
  explicit Message(const Path& path) {
    frame.path = &path;
    frame.head = head.data();
    frame.head_length = static_cast<uint32_t>(head.size());
    frame.spans = &span;
    frame.span_count = 1;
    frame.payload_length = span.length;
    std::memset(frame.tail, 0, sizeof frame.tail);
    frame.tail_length = 7;
    frame.stable = frame.signs = true;
    frame.crc = 0x12345678;
  }
  Bytes copy() const {
    Bytes bytes(frame.length());
    REQUIRE(port::ethernet::write_transport(bytes.data(), frame) == bytes.data() + bytes.size());
    return bytes;
  }

  Bytes head = frame_bytes(1, 28);
  Bytes memory = frame_bytes(2, 1001);
  Span span{memory.data(), static_cast<uint32_t>(memory.size())};
  TxFrame frame;
};

Path path_to(Port& from, const Gid& destination) {
  Path path = path_between(from, from);
  path.destination = destination;
  return path;
}

Bytes transport_of(const rte_mbuf* buffer) {
  Bytes bytes(buffer->pkt_len - kOuter);
  const void* const at =
      rte_pktmbuf_read(buffer, kOuter, static_cast<uint32_t>(bytes.size()), bytes.data());
  REQUIRE(at != nullptr);
  if (at != bytes.data()) std::memcpy(bytes.data(), at, bytes.size());
  return bytes;
}

// What the device has got of one frame, from its ring.
rte_mbuf* sent_by(Port& port, const TxFrame& frame) {
  REQUIRE(port.transmit({&frame, 1}) == 1);
  rte_mbuf* buffer = nullptr;
  REQUIRE(rte_eth_rx_burst(device_of(port).port(), 0, &buffer, 1) == 1);
  return buffer;
}

TEST_CASE("dpdk in place: the device gets the memory itself, between headers and ICRC") {
  const std::unique_ptr<Port> port = open_dpdk("net_ring", kKeys);
  const port::dpdk::InPlace& in_place = *device_of(*port).in_place(0);
  const Path path = path_to(*port, Gid::from_ipv4(10, 83, 0, 2));
  const Message message(path);
  const uint64_t free = counter(*port, "dpdk_buffers_free");
  rte_mbuf* const buffer = sent_by(*port, message.frame);
  REQUIRE(buffer->nb_segs == 3);
  CHECK(rte_pktmbuf_mtod(buffer->next, const std::byte*) == message.memory.data());
  CHECK(buffer->next->data_len == message.memory.size());
  CHECK(transport_of(buffer) == message.copy());
  CHECK(in_place.under_way() == 1);
  rte_pktmbuf_free(buffer);
  CHECK(in_place.under_way() == 0);
  CHECK(counter(*port, "dpdk_tx_in_place") == 1);
  CHECK(counter(*port, "dpdk_buffers_free") == free);
}

TEST_CASE("dpdk in place: a copy of what may change, and where nobody asked for more") {
  const auto copied = [](const std::string& in_place, bool stable) {
    const std::unique_ptr<Port> port = open_dpdk("net_ring", keys_with(in_place));
    const Path path = path_to(*port, Gid::from_ipv4(10, 83, 0, 2));
    Message message(path);
    message.frame.stable = stable;
    rte_mbuf* const buffer = sent_by(*port, message.frame);
    CHECK(buffer->nb_segs == 1);
    CHECK(transport_of(buffer) == message.copy());
    rte_pktmbuf_free(buffer);
    CHECK(counter(*port, "dpdk_tx_in_place") == 0);
  };
  copied("1", false);
  copied("0", true);
}

TEST_CASE("dpdk in place: without buffers for a chain one frame is copied") {
  const std::unique_ptr<Port> port = open_dpdk("net_ring", kKeys);
  const Path path = path_to(*port, Gid::from_ipv4(10, 83, 0, 2));
  const Message message(path);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* const buffer = rte_pktmbuf_alloc(device_of(*port).pool(0)))
    all.push_back(buffer);
  rte_pktmbuf_free_bulk(&all[all.size() - 2], 2);
  rte_mbuf* const buffer = sent_by(*port, message.frame);
  CHECK(buffer->nb_segs == 1);
  CHECK(transport_of(buffer) == message.copy());
  rte_pktmbuf_free(buffer);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size() - 2));
}

TEST_CASE("dpdk in place: memory that goes while frames are in progress is still what arrives") {
  constexpr size_t kFrames = 100, kCopies = 64;  // those that the port makes for its own members
  const std::unique_ptr<Port> port = open_dpdk("net_ring", kKeys);
  const Gid group = Gid::from_ipv4(239, 1, 2, 3);
  REQUIRE(port->join(group));
  const Path path = path_to(*port, group);
  Message message(path);
  const Bytes whole = message.copy();
  const std::vector<TxFrame> frames(kFrames, message.frame);
  const uint64_t free = counter(*port, "dpdk_buffers_free");
  REQUIRE(port->transmit(frames) == kFrames);
  const port::dpdk::InPlace& in_place = *device_of(*port).in_place(0);
  REQUIRE(in_place.under_way() == kFrames);
  port->detach(message.memory.data(), message.memory.size());
  CHECK(in_place.under_way() == 0);
  CHECK(counter(*port, "dpdk_detach_late") == 0);
  message.memory.assign(message.memory.size(), std::byte{0xEE});
  const std::vector<Got> got = arrived(*port, kFrames + kCopies);
  CHECK(got.size() == kFrames + kCopies);
  for (const Got& one : got) CHECK(one.bytes == whole);
  CHECK(counter(*port, "dpdk_buffers_free") == free);
}

TEST_CASE("dpdk in place: memory that is gone loses the frame, and no buffer") {
  const std::unique_ptr<Port> port = open_dpdk("net_null", kKeys);
  const Path path = path_to(*port, Gid::from_ipv4(10, 83, 0, 2));
  Message message(path);
  memory::install_fault_guard();
  message.span.data = reinterpret_cast<const std::byte*>(4096);
  const uint64_t free = counter(*port, "dpdk_buffers_free");
  REQUIRE(port->transmit({&message.frame, 1}) == 1);
  CHECK(counter(*port, "dpdk_tx_unreadable") == 1);
  CHECK(counter(*port, "dpdk_buffers_free") == free);
}

// Chains that the driver was given, and where their second buffers point.
struct Seen {
  std::vector<const void*> payloads;

  static uint16_t note(uint16_t, uint16_t, rte_mbuf** buffers, uint16_t count, void* argument) {
    for (uint16_t i = 0; i < count; ++i)
      if (buffers[i]->nb_segs == 3)
        static_cast<Seen*>(argument)->payloads.push_back(rte_pktmbuf_mtod(buffers[i]->next, void*));
    return count;
  }
};

TEST_CASE("dpdk in place: over a memif") {
  const Ends ends{{{"in_place", "1"}}};
  Port &from = *ends.b, &to = *ends.a;
  const Path path = path_between(from, to);
  const Message message(path);
  Seen seen;
  const uint16_t device = device_of(from).port();
  const rte_eth_rxtx_callback* const callback =
      rte_eth_add_tx_callback(device, 0, &Seen::note, &seen);
  REQUIRE(callback != nullptr);
  const TxFrame frames[] = {message.frame, message.frame};
  REQUIRE(from.transmit(frames) == 2);
  CHECK(seen.payloads == std::vector<const void*>(2, message.memory.data()));
  CHECK(device_of(from).in_place(0)->under_way() == 0);  // the driver has copied them
  const std::vector<Got> got = arrived(to, 2);
  REQUIRE(got.size() == 2);
  for (const Got& one : got) CHECK(one.bytes == message.copy());
  CHECK(rte_eth_remove_tx_callback(device, 0, callback) == 0);
}

TEST_CASE("dpdk in place: devices that read later, or cannot be stopped in the middle") {
  const std::pair<const char*, Keys> kDevices[] = {
      {"net_vhost", {{"iface", "/tmp/weft-in-place"}}},
      {"net_af_packet", {{"iface", "lo"}}},
      {"net_memif", {{"socket", "/tmp/weft-in-place"}, {"zero-copy", "yes"}}}};
  for (const auto& [device, more] : kDevices) {
    Keys keys = more;
    keys.emplace_back("in_place", "1");
    const Opened opened = try_dpdk(device, keys);
    REQUIRE(!opened);
    CHECK(opened.error().code == Code::not_supported);
    CHECK(opened.error().message.find("dpdk.in_place=1") == 0);
  }
}

}  // namespace
