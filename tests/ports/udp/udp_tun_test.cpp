// SPDX-License-Identifier: BSD-3-Clause
// A TUN device without offloads makes the kernel cut GSO trains for real. What comes out is what a
// NIC on the other side would see: every segment must verify as the frame that was signed.
#include <linux/if_tun.h>
#include <netinet/in.h>

#include "lib/wire/encapsulation.hpp"
#include "lib/wire/icrc.hpp"
#include "tests/ports/udp/udp_frames.hpp"
#include "weft/log.hpp"

using namespace udp_test;

namespace {

struct Ipv6Request {  // struct in6_ifreq; its header does not go with netinet/in.h
  in6_addr address;
  uint32_t prefix;
  int interface;
};

// `call` of the kernel's interface `name` with an IPv4 address.
bool set_address(const char* name, unsigned long call, uint32_t address) {
  const port::udp::Descriptor v4(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  port::udp::SocketAddress value;
  value.v4.sin_family = AF_INET;
  value.v4.sin_addr.s_addr = htonl(address);
  std::memcpy(&request.ifr_addr, &value.v4, sizeof value.v4);
  return ::ioctl(v4.fd(), call, &request) == 0;
}

bool add_ipv4(const char* name, uint32_t address) {
  return set_address(name, SIOCSIFADDR, address) && set_address(name, SIOCSIFNETMASK, 0xFFFFFF00);
}

bool set_mtu(const char* name, int mtu) {
  const port::udp::Descriptor v4(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_mtu = mtu;
  return ::ioctl(v4.fd(), SIOCSIFMTU, &request) == 0;
}

port::udp::Descriptor open_tun(const char* name, int mtu) {
  port::udp::Descriptor tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!tun || ::ioctl(tun.fd(), TUNSETIFF, &request) != 0) return {};
  if (!add_ipv4(name, 0x0A090001) || !set_mtu(name, mtu) || !Namespace::up(name)) return {};
  // fd09::1/64 where this kernel has IPv6, usable a moment later.
  const port::udp::Descriptor v6(::socket(AF_INET6, SOCK_DGRAM, 0));
  Ipv6Request ipv6{};
  ipv6.address.s6_addr[0] = 0xFD;
  ipv6.address.s6_addr[1] = 0x09;
  ipv6.address.s6_addr[15] = 1;
  ipv6.prefix = 64;
  ipv6.interface = static_cast<int>(::if_nametoindex(name));
  (void)::ioctl(v6.fd(), SIOCSIFADDR, &ipv6);
  return tun;
}

// Signs the frame as the engine does, as segment `id` of its train.
void sign(Bytes& frame, const Path& path, uint16_t id) {
  const wire::OuterHeader outer = {&path.source, &path.destination, path.source_port,
                                   path.destination_port, id};
  const auto length = static_cast<uint32_t>(frame.size());
  const uint32_t sum = wire::icrc(outer, frame.data(), length);
  for (uint32_t i = 0; i < 4; ++i) frame[length - 4 + i] = static_cast<std::byte>(sum >> (8 * i));
}

struct Packet {
  wire::Outer outer;
  Bytes transport;
};

// Reads `count` UDP packets for port 4791 from the device; other traffic is passed over.
std::vector<Packet> read_packets(int tun, size_t count) {
  std::vector<Packet> packets;
  while (packets.size() < count) {
    pollfd wait = {tun, POLLIN, 0};
    if (::poll(&wait, 1, 1000) <= 0) break;
    std::byte frame[70000] = {};
    const ssize_t n = ::read(tun, frame + 14, sizeof frame - 14);
    if (n <= 0) continue;
    const bool v6 = static_cast<uint8_t>(frame[14]) >> 4 == 6;
    frame[12] = static_cast<std::byte>(v6 ? 0x86 : 0x08);
    frame[13] = static_cast<std::byte>(v6 ? 0xDD : 0x00);
    Packet packet;
    wire::Transport transport;
    const wire::OuterError error =
        wire::parse_outer(frame, static_cast<uint32_t>(n) + 14, packet.outer, transport);
    if (error == wire::OuterError::not_udp) continue;
    INFO(wire::name(error));
    REQUIRE(error == wire::OuterError::none);
    if (packet.outer.destination_port != 4791) continue;
    packet.transport.assign(transport.bytes, transport.bytes + transport.length);
    packets.push_back(packet);
  }
  return packets;
}

void cut_one_train(Port& port, int tun, const Gid& destination, uint32_t count, uint32_t length,
                   uint32_t last) {
  INFO(count << " x " << length << ", last " << last);
  Path path;
  path.source = port.address();
  path.destination = destination;
  path.source_port = port.source_port(0xD00D, 0);
  path.hop_limit = 33;
  std::vector<Bytes> bytes;
  std::vector<TxFrame> frames;
  for (uint32_t k = 0; k < count; ++k) {
    bytes.push_back(frame_bytes(k, k + 1 == count ? last : length));
    sign(bytes.back(), path, static_cast<uint16_t>(k));
  }
  for (uint32_t k = 0; k < count; ++k)
    frames.push_back(whole_frame(path, bytes[k], static_cast<uint16_t>(k)));
  REQUIRE(port.transmit(frames) == count);
  const std::vector<Packet> packets = read_packets(tun, count);
  REQUIRE(packets.size() == count);
  for (uint32_t k = 0; k < count; ++k) {
    const Packet& packet = packets[k];
    CHECK(packet.transport == bytes[k]);
    if (packet.outer.is_ipv4()) CHECK(packet.outer.ip_id == k);
    CHECK(packet.outer.hop_limit == 33);
    CHECK(packet.outer.source_port == path.source_port);
    // From what the wire says, not from what we meant.
    const wire::OuterHeader seen = {&packet.outer.source, &packet.outer.destination,
                                    packet.outer.source_port, packet.outer.destination_port,
                                    packet.outer.ip_id};
    CHECK(wire::icrc_verify(seen, packet.transport.data(),
                            static_cast<uint32_t>(packet.transport.size())));
  }
}

void cut_trains(const char* name, bool v6) {
  const Namespace own;
  if (!own) WEFT_SKIP(name, "a network namespace needs root");
  const port::udp::Descriptor tun = open_tun("weft0", 1500);
  if (!tun) WEFT_SKIP(name, "no TUN device here");
  Gid destination = Gid::from_ipv4(10, 9, 0, 2);
  if (v6) {
    destination = Gid{{0xFD, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    if (!port::udp::resolve("fd09::1").ok()) WEFT_SKIP(name, "no IPv6 here");
  }
  // A new IPv6 address is tentative for a moment.
  for (int i = 0; v6 && i < 300 && !port::open_udp_port({"fd09::1", {}}).ok(); ++i)
    ::usleep(10'000);
  const auto port = open_port(v6 ? "fd09::1" : "weft0");
  CHECK(port->capabilities().active_mtu == 1024);
  const uint32_t most = port->capabilities().train_frames;
  if (most == 1) WEFT_SKIP(name, "this kernel has no UDP_SEGMENT");
  for (const uint32_t count : {1u, 2u, 17u, 60u}) {
    cut_one_train(*port, tun.fd(), destination, count, 1040, 1040);
    cut_one_train(*port, tun.fd(), destination, count, 300, 299);
  }
  cut_one_train(*port, tun.fd(), destination, most, 36, 20);
  CHECK(counter(*port, "udp_tx_errors") == 0);
}

}  // namespace

TEST_CASE("udp: the kernel cuts a train and every segment verifies (C-ICRC-11, C-HDR-8)") {
  cut_trains("udp: TUN cuts IPv4 trains", false);
}

TEST_CASE("udp: the kernel cuts an IPv6 train and every segment verifies (C-ICRC-11)") {
  cut_trains("udp: TUN cuts IPv6 trains", true);
}

TEST_CASE("udp: an address on lo to which routes lead has the path MTU of the other interfaces") {
  const Namespace own;
  if (!own) WEFT_SKIP("udp: an address on lo", "a network namespace needs root");
  const port::udp::Descriptor tun = open_tun("weft3", 1500);
  if (!tun) WEFT_SKIP("udp: an address on lo", "no TUN device here");
  REQUIRE(add_ipv4("lo:1", 0x0A080001));
  CHECK(open_port("10.8.0.1")->capabilities().active_mtu == 1024);
  CHECK(open_port("lo")->capabilities().active_mtu == 4096);
  CHECK(open_port("127.0.0.1")->capabilities().active_mtu == 4096);
}

TEST_CASE("udp: a packet that does not fit its route is counted, and the log says what to do") {
  const Namespace own;
  if (!own) WEFT_SKIP("udp: a long packet", "a network namespace needs root");
  const port::udp::Descriptor tun = open_tun("weft4", 9000);
  if (!tun) WEFT_SKIP("udp: a long packet", "no TUN device here");
  const auto port = open_port("weft4");
  REQUIRE(port->capabilities().active_mtu == 4096);
  REQUIRE(set_mtu("weft4", 1500));
  std::vector<std::string> said;
  REQUIRE(set_log_sink([&](const LogLine& line) { said.emplace_back(line.text); }));
  Path path;
  path.source = port->address();
  path.destination = Gid::from_ipv4(10, 9, 0, 2);
  path.source_port = port->source_port(0xD00D, 0);
  const Bytes bytes = frame_bytes(1, 4100);
  const TxFrame frame = whole_frame(path, bytes);
  for (int i = 0; i < 3; ++i) CHECK(port->transmit({&frame, 1}) == 1);
  REQUIRE(set_log_sink({}));
  CHECK(counter(*port, "udp_tx_errors") == 3);
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("4100 bytes from 10.9.0.1 do not fit the route to 10.9.0.2") !=
        std::string::npos);
}

TEST_CASE("udp: packets as hardware sends them arrive, UDP checksum 0 too (C-HDR-7)") {
  const std::string name = "udp: packets from hardware";
  const Namespace own;
  if (!own) WEFT_SKIP(name, "a network namespace needs root");
  const port::udp::Descriptor tun = open_tun("weft2", 1500);
  if (!tun) WEFT_SKIP(name, "no TUN device here");
  for (const char* where : {"10.9.0.1", "fd09::1"}) {
    if (!port::udp::resolve(where).ok()) WEFT_SKIP(name, "no IPv6 here");
    // A new IPv6 address is tentative for a moment.
    for (int i = 0; i < 300 && !port::open_udp_port({where, {}}).ok(); ++i) ::usleep(10'000);
    const auto port = open_port(where);
    wire::Outer outer;
    outer.source = port->address();
    outer.source.bytes[15] = 2;
    outer.destination = port->address();
    outer.source_port = 0xDEAF;
    outer.traffic_class = 0x03;  // a switch marked it
    outer.ip_id = 0x1234;        // hardware counts, and the socket will not tell us
    Path path;
    path.source = outer.source;
    path.destination = outer.destination;
    path.source_port = outer.source_port;
    Bytes bytes = frame_bytes(5, 200, port->qpn_range().first);
    sign(bytes, path, outer.ip_id);
    std::byte packet[400];
    const uint32_t headers = wire::emit_outer(packet, outer, 200);
    std::memcpy(packet + headers, bytes.data(), bytes.size());
    const size_t length = headers - 14 + bytes.size();  // TUN has no Ethernet
    REQUIRE(::write(tun.fd(), packet + 14, length) == static_cast<ssize_t>(length));
    const std::vector<Got> got = drain(*port, 1);
    REQUIRE(got.size() == 1);
    CHECK(got[0].bytes == bytes);
    CHECK(got[0].ecn == 3);
    wire::OuterHeader seen = {&got[0].path.source, &got[0].path.destination,
                              got[0].path.source_port, 4791, got[0].ip_id};
    if (got[0].ip_id_known) {
      CHECK(wire::icrc_verify(seen, bytes.data(), 200));
    } else {
      CHECK(wire::icrc_verify_unknown_id(seen, bytes.data(), 200));
      CHECK(seen.ip_id == 0x1234);
    }
  }
}

TEST_CASE("udp: a GSO packet that the device cannot segment is counted, and GSO is disabled") {
  const Namespace own;
  if (!own) WEFT_SKIP("udp: too long for TUN", "a network namespace needs root");
  const port::udp::Descriptor tun = open_tun("weft1", 600);
  if (!tun) WEFT_SKIP("udp: too long for TUN", "no TUN device here");
  const auto port = open_port("10.9.0.1");
  CHECK(port->capabilities().active_mtu == 512);
  Path path;
  path.source = port->address();
  path.destination = Gid::from_ipv4(10, 9, 0, 2);
  path.source_port = port->source_port(0xC777, 0);
  const Bytes bytes = frame_bytes(1, 1040);
  const TxFrame frames[2] = {whole_frame(path, bytes, 0), whole_frame(path, bytes, 0)};
  CHECK(port->transmit(frames) == 2);
  CHECK(counter(*port, "udp_tx_errors") == 2);
  CHECK(counter(*port, "udp_tx_frames") == 0);
}
