// SPDX-License-Identifier: BSD-3-Clause
// The af_packet port on a veth pair in a namespace: what it writes is what the other end reads,
// trains that arrive uncut are cut as a device would have, and what it cannot open it explains.
// Whole protocols over it: tests/interop.
// program: own
#include "providers/port/af_packet/af_packet_port.hpp"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <set>

#include "tests/ports/ethernet/raw_port_support.hpp"

using namespace raw_port_test;

namespace {

Result<std::unique_ptr<Port>> open_raw(const std::string& where, const std::string& address = {}) {
  Keys keys;
  if (!address.empty()) keys.emplace_back("address", address);
  return port::open_af_packet_port({where, keys});
}

// Two ports that know each other's MAC address.
struct Ends {
  std::unique_ptr<Port> a = std::move(*open_raw("w0", "10.79.0.1"));
  std::unique_ptr<Port> b = std::move(*open_raw("w1", "10.79.0.2"));

  Ends() {
    const Path path = path_between(*a, *b);
    const Bytes bytes = frame_bytes(0, 32);
    const TxFrame frame[1] = {whole_frame(path, bytes)};
    REQUIRE(a->transmit(frame) == 1);  // it waits in the port for the answer to who has the address
    for (int i = 0; i < 100; ++i) {
      transport::Frame none[1];
      if (b->receive(none) != 0) {
        b->release(none);
        return;
      }
      a->release({none, a->receive(none)});
      usleep(1000);
    }
    FAIL("nothing came");
  }
};

// What the kernel says of UDP ports without a socket, as it comes out at w1.
class Complaints {
 public:
  Complaints() {
    sockaddr_ll where{};
    where.sll_family = AF_PACKET;
    where.sll_protocol = htons(ETH_P_IP);
    where.sll_ifindex = static_cast<int>(if_nametoindex("w1"));
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  }
  ~Complaints() { close(socket_); }
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  // True if "port unreachable" has come about port 4791 of 10.79.0.`host`: ICMP behind 20 bytes of
  // IP, then the headers of the packet that is meant.
  bool about(uint8_t host) {
    uint8_t packet[2048];
    for (ssize_t got; (got = recv(socket_, packet, sizeof packet, 0)) > 0;)
      if (got >= 52 && packet[9] == IPPROTO_ICMP && packet[20] == 3 && packet[21] == 3 &&
          (packet[50] << 8 | packet[51]) == 4791)
        hosts_.insert(packet[47]);
    return hosts_.count(host) != 0;
  }

 private:
  int socket_ = ::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_IP));
  std::set<uint8_t> hosts_;
};

size_t taken_by(Port& port) {
  Frame frames[8];
  const size_t count = port.receive(frames);
  port.release({frames, count});
  return count;
}

// Sends a frame, and lets the port answer who asks for its address, until `done` or a second has
// passed.
template <class Done>
bool send_until(Port& port, const char* to, const Done& done) {
  Path path;
  path.source = port.address();
  path.destination = *parse_gid(to);
  path.source_port = 0xC321;
  path.hop_limit = 64;
  const Bytes bytes = frame_bytes(1, 100);
  const TxFrame frame[1] = {whole_frame(path, bytes)};
  REQUIRE(port.transmit(frame) == 1);
  for (int i = 0; i < 1000; ++i) {
    if (done()) return true;
    taken_by(port);
    usleep(1000);
  }
  return false;
}

}  // namespace

TEST_CASE("af_packet: GSO packets of the udp port are segmented, for any receive() size") {
  WEFT_NEEDS_VETH("af_packet: GSO packets of the udp port are segmented, for any receive() size");
  const auto raw = std::move(*open_raw("w1", "10.79.0.2"));
  const auto udp = open_port("10.79.0.9");
  const uint32_t most = udp->capabilities().train_frames;
  if (most < 20) WEFT_SKIP("af_packet: trains", "this kernel has no UDP_SEGMENT");
  const Path path = path_between(*udp, *raw);
  std::vector<Bytes> bytes;  // of three trains
  std::vector<TxFrame> frames;
  for (uint32_t i = 0; i < 60; ++i) bytes.push_back(frame_bytes(i, i % 20 == 19 ? 36 : 1040));
  for (uint32_t i = 0; i < 60; ++i)
    frames.push_back(whole_frame(path, bytes[i], static_cast<uint16_t>(i % 20)));
  for (const size_t at_once : {1u, 7u, 64u}) {
    REQUIRE(udp->transmit(frames) == 60);
    const std::vector<Got> got = drain(*raw, 60, at_once);
    REQUIRE(got.size() == 60);
    for (uint32_t i = 0; i < 60; ++i) {
      CHECK(got[i].bytes == bytes[i]);
      CHECK(got[i].ip_id == i % 20);
    }
  }
  CHECK(counter(*raw, "af_packet_rx_trains") > 0);
  CHECK(counter(*raw, "af_packet_rx_malformed") == 0);
}

TEST_CASE("af_packet: frames of the groups that were joined, from udp too (C-OPS-87)") {
  WEFT_NEEDS_VETH("af_packet: frames of the groups that were joined, from udp too (C-OPS-87)");
  const auto raw = std::move(*open_raw("w1", "10.79.0.2"));
  const auto udp = open_port("10.79.0.9");
  Path path = path_between(*udp, *raw);
  const Bytes bytes = frame_bytes(3, 500);
  const Gid ours = Gid::from_ipv4(239, 129, 2, 3), twin = Gid::from_ipv4(239, 1, 2, 3);
  const auto send = [&](transport::Port& from, const Gid& to) {
    path.source = from.address();
    path.destination = to;
    const TxFrame frame[1] = {whole_frame(path, bytes)};
    REQUIRE(from.transmit(frame) == 1);
  };
  REQUIRE(raw->join(ours));
  send(*udp, twin);  // the same Ethernet address, another group
  send(*udp, ours);
  const std::vector<Got> got = drain(*raw, 1);
  REQUIRE(got.size() == 1);
  CHECK(got[0].bytes == bytes);
  CHECK(got[0].path.destination == ours);
  CHECK(got[0].path.source == udp->address());
  CHECK(counter(*raw, "af_packet_rx_foreign") >= 1);
  // The other way, and not to itself unless it is a member.
  REQUIRE(udp->join(twin));
  path.source_port = 0xC123;
  send(*raw, twin);
  CHECK(drain(*udp, 1).size() == 1);
  send(*raw, ours);
  CHECK(drain(*raw, 1).size() == 1);
  raw->leave(ours);
  send(*udp, ours);
  send(*raw, ours);
  CHECK(drain(*raw, 0).empty());
}

// What the kernel says of 10.79.0.8 is the proof that it has nothing to say of what came before.
TEST_CASE("af_packet: the kernel sends no port unreachable for the port of a device") {
  WEFT_NEEDS_VETH("af_packet: the kernel sends no port unreachable for the port of a device");
  REQUIRE(std::system("ip addr add 10.79.0.8/24 dev w0") == 0);
  Complaints complaints;
  auto device = *open_raw("w0", "10.79.0.9");
  const auto peer = *open_raw("w1", "10.79.0.2");
  CHECK(send_until(*peer, "10.79.0.9", [&] { return taken_by(*device) > 0; }));
  CHECK(send_until(*peer, "10.79.0.8", [&] { return complaints.about(8); }));
  CHECK_FALSE(complaints.about(9));
  device.reset();
  CHECK(send_until(*peer, "10.79.0.9", [&] { return complaints.about(9); }));
}

TEST_CASE("af_packet: frames dropped at a full ring are counted (C-EVT-110)") {
  WEFT_NEEDS_VETH("af_packet: frames dropped at a full ring are counted (C-EVT-110)");
  Ends ends;
  constexpr uint32_t kSent = 5000;
  const Path path = path_between(*ends.a, *ends.b);
  const Bytes bytes = frame_bytes(5, 100);
  const TxFrame frame[1] = {whole_frame(path, bytes)};
  for (uint32_t sent = 0, tries = 0; sent < kSent && tries < 1'000'000; ++tries)
    sent += static_cast<uint32_t>(ends.a->transmit(frame));
  size_t got = 0, more = 0;
  while ((more = drain(*ends.b, 1).size()) != 0) got += more;
  CHECK(got >= 2000);
  CHECK(got < kSent);
  // A busy machine may drop some before the ring (netdev_max_backlog), which the ring cannot count.
  CHECK(counter(*ends.b, "af_packet_rx_ring_drops") > 0);
  CHECK(got + counter(*ends.b, "af_packet_rx_ring_drops") <= kSent);
}

TEST_CASE("af_packet: errors name what is wrong with an interface") {
  WEFT_NEEDS_VETH("af_packet: errors name what is wrong with an interface");
  CHECK(open_raw("nothing").error().code == Code::not_found);
  CHECK(open_raw("").error().code == Code::invalid_argument);
  CHECK(open_raw("w0", "no address").error().code == Code::invalid_argument);
  CHECK(open_raw("lo").error().code == Code::not_supported);
  REQUIRE(std::system("ip link set w1 down") == 0);
  CHECK(open_raw("w1", "10.79.0.2").error().code == Code::not_found);
  const auto first = open_raw("w0");
  REQUIRE(first.ok());
  const auto second = open_raw("w0");  // the same address
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code == Code::address_in_use);
}
