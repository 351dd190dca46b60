// SPDX-License-Identifier: BSD-3-Clause
// What the tests of ports that see whole Ethernet frames share: two interfaces joined by a wire, a
// simulated host on the wire, and time that the test advances.
#pragma once

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <ctime>
#include <optional>

#include "lib/base/virtual_process.hpp"
#include "lib/wire/neighbour.hpp"
#include "tests/ports/udp/udp_frames.hpp"

namespace raw_port_test {

using namespace udp_test;
using wire::MacAddress;

// Two interfaces, w0 and w1, joined by a wire.
struct Veth {
  Namespace own;
  bool there = own && std::system(
                          "ip link add w0 type veth peer name w1 && ip link set w0 up && "
                          "ip link set w1 up && ip addr add 10.79.0.9/24 dev w0") == 0;
};

// ---- time

inline Duration skipped;  // by pass()

inline Instant test_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{} + Duration::from_s(t.tv_sec) + Duration::from_ns(t.tv_nsec) + skipped;
}

// What the ports' clock tells in this process from its start.
inline const bool kInTestTime = base::live_in_virtual_time(test_now);

inline void pass(Duration time) {
  REQUIRE(kInTestTime);
  skipped = Duration{skipped.ps + time.ps};
}

// ---- a host

// Sees and puts whole frames on an interface.
class Wire {
 public:
  explicit Wire(const char* interface) {
    sockaddr_ll where{};
    where.sll_family = AF_PACKET;
    where.sll_protocol = htons(ETH_P_ALL);
    where.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    const int one = 1;
    REQUIRE(setsockopt(socket_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) == 0);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  }
  ~Wire() { close(socket_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void put(std::span<const std::byte> frame) {
    CHECK(::send(socket_, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
  }
  void put(const wire::NeighbourMessage& message, const MacAddress& to) {
    std::byte frame[wire::kMaxNeighbourLength];
    put(std::span<const std::byte>(frame, wire::emit_neighbour(frame, message, to)));
  }
  // The next frame that came, if there is one.
  std::optional<Bytes> next() {
    Bytes frame(9000);
    const ssize_t got = recv(socket_, frame.data(), frame.size(), 0);
    if (got <= 0) return std::nullopt;
    frame.resize(static_cast<size_t>(got));
    return frame;
  }

 private:
  int socket_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
};

// As a driver does that never sleeps: `turns` of them.
inline void turn(Port& port, int turns) {
  for (int i = 0; i < turns; ++i) {
    Frame frames[8];
    port.release({frames, port.receive(frames)});
  }
}

// IPv4 and UDP to 10.79.0.2 and everybody's MAC address, one byte shorter than its IP header says.
inline Bytes frame_that_lies() {
  constexpr uint32_t kIp = 14, kUdp = kIp + 20, kPayload = 32;
  Bytes frame(kUdp + 8 + kPayload);
  const auto put = [&frame](uint32_t at, std::initializer_list<int> bytes) {
    for (const int byte : bytes) frame[at++] = static_cast<std::byte>(byte);
  };
  put(0, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});
  put(12, {0x08, 0x00, 0x45, 0, 0, 20 + 8 + kPayload + 1, 0, 0, 0x40, 0, 64, 17});
  put(kIp + 12, {10, 79, 0, 1, 10, 79, 0, 2});
  put(kUdp, {0xC0, 0, 4791 >> 8, 4791 & 0xFF, 0, 8 + kPayload});
  return frame;
}

// ---- cases

// A host at 10.79.0.77 on w0, simulated by the test, and what a port at 10.79.0.2 on w1 sends to
// it.
class Host {
 public:
  explicit Host(Port& port) : port_(port), path_(path_between(port, port)) {
    path_.destination = Gid::from_ipv4(10, 79, 0, 77);
  }

  // Has the port send a frame, and discards what it sent before.
  void is_sent_a_frame() {
    while (wire_.next()) continue;
    frame_to_.reset();
    asked_at_.reset();
    const TxFrame frame[1] = {whole_frame(path_, bytes_)};
    REQUIRE(port_.transmit(frame) == 1);
  }
  // Where the frame goes, the question who has the address; all zero: neither within a second or
  // two.
  MacAddress frame_to() { return await(frame_to_); }
  MacAddress asked_at() { return await(asked_at_); }

  // In answer, or gratuitously to all.
  void says_it_is_at(const MacAddress& mac, bool gratuitously = false) {
    wire_.put({.is_question = gratuitously,
               .sender_mac = mac,
               .sender = path_.destination,
               .target = gratuitously ? path_.destination : port_.address()},
              gratuitously ? MacAddress{} : kEverybody);
    turn(port_, 3000);
  }

  static constexpr MacAddress kEverybody = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

 private:
  MacAddress await(const std::optional<MacAddress>& what) {
    for (int i = 0; i < 2000 && !what; ++i) {
      turn(port_, 100);
      while (const std::optional<Bytes> frame = wire_.next()) see(*frame);
      if (!what) usleep(500);
    }
    return what.value_or(MacAddress{});
  }
  void see(const Bytes& frame) {
    MacAddress to{};
    std::memcpy(to.data(), frame.data(), to.size());
    wire::NeighbourMessage message;
    if (wire::parse_neighbour(frame.data(), static_cast<uint32_t>(frame.size()), message)) {
      if (message.is_question && message.target == path_.destination) asked_at_ = to;
    } else if (frame.size() == 14 + 20 + 8 + bytes_.size()) {
      frame_to_ = to;
    }
  }

  Port& port_;
  Wire wire_{"w0"};
  Path path_;
  const Bytes bytes_ = frame_bytes(1, 100);
  std::optional<MacAddress> frame_to_, asked_at_;
};

// `port`: 10.79.0.2 on w1. It sends to a host that is at one MAC address first and at others later.
// `ages`: it is to confirm neighbours again that it has not received from for a while.
inline void follows_a_neighbour_that_moves(Port& port) {
  const MacAddress first = {2, 0, 0, 0, 7, 1}, second = {2, 0, 0, 0, 7, 2};
  const MacAddress third = {2, 0, 0, 0, 7, 3};
  Host host(port);
  host.is_sent_a_frame();
  CHECK(host.asked_at() == Host::kEverybody);
  host.says_it_is_at(first);
  CHECK(host.frame_to() == first);
  host.says_it_is_at(second, true);
  int tries = 0;
  do {
    host.is_sent_a_frame();  // it may not have processed it yet
  } while (host.frame_to() == first && ++tries < 100);
  CHECK(host.frame_to() == second);
  // It is asked whether it is still there, and silence does not stop frames to it at once.
  for (int i = 0; i < 5; ++i) {
    pass(Duration::from_s(i == 0 ? 31 : 2));
    turn(port, 3000);
    host.is_sent_a_frame();
    CHECK(host.frame_to() == second);
    CHECK(host.asked_at() == (i < 2 ? second : Host::kEverybody));
  }
  pass(Duration::from_s(2));
  turn(port, 3000);
  host.is_sent_a_frame();
  CHECK(host.asked_at() == Host::kEverybody);
  host.says_it_is_at(third);
  CHECK(host.frame_to() == third);
}

}  // namespace raw_port_test

#define WEFT_NEEDS_VETH(name) \
  const Veth veth;            \
  if (!veth.there) WEFT_SKIP(name, "a network namespace needs root")
