// SPDX-License-Identifier: BSD-3-Clause
// Whether a process has a peer's UDP port: its host says so, and no one else is believed.
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "providers/port/udp/host_question.hpp"
#include "tests/ports/udp/udp_frames.hpp"

using namespace udp_test;
using transport::LostPeers;
using transport::PeerSign;

namespace {

// A port that is told which peers are lost.
struct Asker {
  explicit Asker(const std::string& where = "lo") : port(open_port(where)) {
    port->report_lost_peers(lost);
  }
  void ask(const Gid& to, uint8_t nonce) {
    std::array<std::byte, 20> datagram{};
    datagram[0] = std::byte{0xC1};
    datagram[19] = static_cast<std::byte>(nonce);
    Path path;
    path.source = port->address();
    path.destination = to;
    port->ask(path, datagram);
  }
  void look() {
    Frame frames[8];
    for (int i = 0; i < 200; ++i)
      if (const size_t count = port->receive(frames)) port->release(std::span(frames, count));
  }

  LostPeers lost;  // outlives the port
  std::unique_ptr<Port> port;
};

}  // namespace

TEST_CASE("udp: a peer whose port no process has is lost, once, and one that lives is not") {
  Asker asker;
  auto peer = open_port("lo");
  const Gid address = peer->address();
  asker.ask(address, 1);
  asker.look();
  CHECK(asker.lost.empty());
  CHECK(counter(*asker.port, "udp_asked") == 1);
  Frame frames[8];
  REQUIRE(peer->receive(frames) == 1);  // the engine drops it
  CHECK(frames[0].length == 20);
  peer->release(std::span(frames, 1));

  peer.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // longer than kInterval
  asker.ask(address, 2);
  asker.look();
  REQUIRE(!asker.lost.empty());
  const transport::LostPeer lost = asker.lost.take();
  CHECK(lost.address == address);
  CHECK(lost.sign == PeerSign::port_unreachable);
  CHECK(lost.slot == 0);
  CHECK(!lost.in_memory);
  CHECK(asker.lost.empty());
  CHECK(counter(*asker.port, "udp_port_unreachable") == 1);
  CHECK(counter(*asker.port, "udp_icmp_unbelieved") == 0);
  CHECK(counter(*asker.port, "udp_tx_errors") == 0);
}

TEST_CASE("udp: an address is not asked again at once") {
  Asker asker;
  auto peer = open_port("lo");
  for (uint8_t i = 0; i < 100; ++i) asker.ask(peer->address(), i);
  CHECK(counter(*asker.port, "udp_asked") < 100);
}

TEST_CASE("udp: a thread that sleeps is woken when a host says that no process has the port") {
  Asker asker;
  std::vector<pollfd> descriptors;
  asker.ask(Gid::from_ipv4(127, 99, 1, 1), 1);
  REQUIRE(asker.port->prepare_wait(descriptors, false));
  CHECK(poll(descriptors.data(), descriptors.size(), 20'000) > 0);
  asker.port->finish_wait();
  asker.look();
  CHECK(!asker.lost.empty());
}

TEST_CASE("udp: what a host quotes that was not asked, or not lately, ends nothing (threat:A08)") {
  Asker asker;
  const Gid first = Gid::from_ipv4(127, 99, 1, 1);
  asker.ask(first, 1);
  // So many that the first is forgotten; these have an owner each.
  std::vector<std::unique_ptr<Port>> others;
  for (uint8_t i = 0; i < 17; ++i) {
    others.push_back(open_port("lo"));
    asker.ask(others.back()->address(), i);
  }
  asker.look();
  CHECK(asker.lost.empty());
  CHECK(counter(*asker.port, "udp_icmp_unbelieved") == 1);
}

// As a process with CAP_NET_RAW can send it: the ICMP message fits the socket that asks, and has
// all but the nonce.
TEST_CASE("udp: a forged ICMP message without the nonce ends nothing (threat:A08)") {
  const int raw = ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
  if (raw < 0) WEFT_SKIP("udp: a forged ICMP message", "needs CAP_NET_RAW");
  Asker asker;
  auto peer = open_port("lo");
  asker.ask(peer->address(), 7);
  Frame frames[8];
  REQUIRE(peer->receive(frames) == 1);
  const uint16_t port = frames[0].path->source_port;
  Bytes seen(frames[0].bytes, frames[0].bytes + frames[0].length);
  peer->release(std::span(frames, 1));
  const bool knows = GENERATE(false, true);
  if (!knows) seen[19] ^= std::byte{1};
  // ICMP header, then the IP and UDP headers of the datagram, then what it carried.
  struct {
    icmphdr icmp;
    iphdr ip;
    udphdr udp;
    std::array<std::byte, 20> payload;
  } message{};
  message.icmp.type = ICMP_DEST_UNREACH;
  message.icmp.code = ICMP_PORT_UNREACH;
  message.ip.version = 4;
  message.ip.ihl = 5;
  message.ip.protocol = IPPROTO_UDP;
  message.ip.tot_len = htons(20 + 8 + 20);
  std::memcpy(&message.ip.saddr, asker.port->address().bytes.data() + 12, 4);
  std::memcpy(&message.ip.daddr, peer->address().bytes.data() + 12, 4);
  message.udp.source = htons(port);
  message.udp.dest = htons(4791);
  message.udp.len = htons(8 + 20);
  std::copy(seen.begin(), seen.end(), message.payload.begin());
  uint32_t sum = 0;
  std::array<uint16_t, sizeof message / 2> words;
  std::memcpy(words.data(), &message, sizeof message);
  for (const uint16_t word : words) sum += word;
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  message.icmp.checksum = static_cast<uint16_t>(~sum);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::memcpy(&to.sin_addr, asker.port->address().bytes.data() + 12, 4);
  REQUIRE(::sendto(raw, &message, sizeof message, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) ==
          sizeof message);
  ::close(raw);
  asker.look();
  // Who has seen the datagram is believed: that is the network itself, or the host.
  CHECK(asker.lost.empty() == !knows);
  CHECK(counter(*asker.port, "udp_icmp_unbelieved") == (knows ? 0 : 1));
}
