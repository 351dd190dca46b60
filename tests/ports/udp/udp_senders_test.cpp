// SPDX-License-Identifier: BSD-3-Clause
// Processes of another user on this host try to pass for a peer with UDP sockets: they send from
// its address, and try to have its source ports. Peers of other users are not kept out.
// //= threat:A31
#include "lib/base/clock.hpp"
#include "tests/ports/udp/udp_frames.hpp"
#include "tests/support/other_user.hpp"

using namespace udp_test;
using namespace weft::test;

namespace {

constexpr uint16_t kPeerPort = 0xC321;

Gid elsewhere() { return Gid::from_ipv4(127, 201, 3, 4); }

void send_one(Port& from, Port& to, uint32_t number) {
  const Path path = path_between(from, to, kPeerPort);
  const Bytes bytes = frame_bytes(number, 64);
  const TxFrame frame = whole_frame(path, bytes);
  REQUIRE(from.transmit({&frame, 1}) == 1);
}

}  // namespace

TEST_CASE("udp: no socket of another user passes for a peer, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("udp senders", "changing the user needs root");
  const auto victim = open_port("lo", {{"check_senders", "1"}});
  const auto peer = open_port("lo", {{"check_senders", "1"}});
  const Gid to = victim->address(), name = peer->address();
  // Before the peer has a source port, and after.
  for (const bool peer_sends : {false, true}) {
    if (peer_sends) send_one(*peer, *victim, 7);
    if (peer_sends) REQUIRE(drain(*victim, 1).size() == 1);
    const uint64_t before = counter(*victim, "udp_rx_foreign_sender");
    const int sent = as_other_user([&] {
      int count = 0;
      for (const uint16_t port : {uint16_t{4791}, uint16_t{40000}, uint16_t{0xC000},
                                  uint16_t{0xFFFF}, uint16_t{0xC654}}) {
        const int fd = bound_socket(elsewhere(), port, {});
        if (fd < 0) continue;  // a test beside this one holds it
        for (int i = 0; i < 3; ++i) count += send_from(fd, name, to, frame_bytes(1, 64));
        ::close(fd);
      }
      const int any = bound_socket(Gid::from_ipv4(0, 0, 0, 0), 0xC777, {});
      count += send_from(any, name, to, frame_bytes(1, 64));
      return count;
    });
    CHECK(sent % 3 == 1);
    CHECK(sent >= 7);
    CHECK(drain(*victim, 1).empty());
    CHECK(counter(*victim, "udp_rx_foreign_sender") == before + static_cast<uint64_t>(sent));
  }
  send_one(*peer, *victim, 8);
  CHECK(drain(*victim, 1).size() == 1);
}

TEST_CASE("udp: no other user can have the source port of a peer, nor after its end, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("udp senders", "changing the user needs root");
  const auto victim = open_port("lo", {{"check_senders", "1"}});
  auto peer = open_port("lo", {{"check_senders", "1"}});
  const Gid name = peer->address();
  const uint16_t port = peer->source_port(kPeerPort, 0);
  const auto bound_by_other = [&] {
    return as_other_user([&] {
      int count = 0;
      using Options = std::initializer_list<int>;
      for (const Options options :
           {Options{}, Options{SO_REUSEADDR}, Options{SO_REUSEPORT}, Options{SO_BINDTODEVICE},
            Options{SO_REUSEADDR, SO_REUSEPORT, SO_BINDTODEVICE}})
        for (const Gid& at : {elsewhere(), name, Gid::from_ipv4(0, 0, 0, 0)})
          count += bound_socket(at, port, options) >= 0;
      return count;
    });
  };
  CHECK(bound_by_other() == 0);
  send_one(*peer, *victim, 1);
  REQUIRE(drain(*victim, 1).size() == 1);
  CHECK(counter(*victim, "udp_sender_ports_held") == 1);
  peer.reset();
  CHECK(bound_by_other() == 0);
}

TEST_CASE("udp: a device of another user is a peer, and a forger of its user is not, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("udp senders", "changing the user needs root");
  const auto victim = open_port("lo", {{"check_senders", "1"}});
  const auto peer = open_port("lo", {{"check_senders", "1"}});
  int looked[2];
  REQUIRE(::pipe(looked) == 0);
  const pid_t child = start_as_other_user([&] {
    const auto theirs = open_port("lo", {{"check_senders", "1"}});
    const Path path = path_between(*theirs, *victim, kPeerPort);
    const Bytes bytes = frame_bytes(1, 64);
    const TxFrame frame = whole_frame(path, bytes);
    for (int i = 0; i < 20; ++i)
      if (theirs->transmit({&frame, 1}) != 1) return 1;
    // From a port that is theirs, in the name of another.
    const int fd = bound_socket(elsewhere(), path.source_port, {SO_REUSEPORT});
    for (int i = 0; i < 20; ++i)
      if (!send_from(fd, peer->address(), victim->address(), frame_bytes(2, 64))) return 2;
    // The device lives until its packets have been looked at.
    char byte;
    ::close(looked[1]);
    return ::read(looked[0], &byte, 1) == 0 ? 0 : 3;
  });
  ::close(looked[0]);
  const std::vector<Got> got = drain(*victim, 21);
  CHECK(got.size() == 20);
  for (const Got& one : got) CHECK(one.path.source != peer->address());
  CHECK(counter(*victim, "udp_rx_foreign_sender") == 20);
  CHECK(counter(*victim, "udp_sender_ports_held") == 0);
  ::close(looked[1]);
  CHECK(exit_status_of(child) == 0);
}

TEST_CASE(
    "udp: another user who takes the address of a peer that has ended is not it, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("udp senders", "changing the user needs root");
  const auto victim = open_port("lo", {{"check_senders", "1"}});
  auto peer = open_port("lo", {{"check_senders", "1"}});
  const std::string name = port::udp::text_of(peer->address());
  send_one(*peer, *victim, 1);
  REQUIRE(drain(*victim, 1).size() == 1);
  peer.reset();
  const pid_t child = start_as_other_user([&] {
    const auto theirs = open_port(name, {{"check_senders", "1"}});
    const Path path = path_between(*theirs, *victim, 0xD000);
    const Bytes bytes = frame_bytes(1, 64);
    const TxFrame frame = whole_frame(path, bytes);
    for (int i = 0; i < 20; ++i) {
      if (theirs->transmit({&frame, 1}) != 1) return 1;
      ::usleep(10'000);
    }
    return 0;
  });
  CHECK(drain(*victim, 1).empty());
  CHECK(counter(*victim, "udp_rx_foreign_sender") == 20);
  CHECK(exit_status_of(child) == 0);
}

// The forger has 500 ports and does not pause; the peer has a port that the victim does not know.
TEST_CASE(
    "udp: a flood from new ports costs a bounded number of lookups, and delays no peer long") {
  if (::geteuid() != 0) WEFT_SKIP("udp senders", "changing the user needs root");
  const auto victim = open_port("lo", {{"check_senders", "1"}});
  const auto peer = open_port("lo", {{"check_senders", "1"}});
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const Instant begin = base::wall_now();
  const pid_t child = start_as_other_user([&] {
    ::close(ends[0]);
    std::vector<int> sockets;
    for (uint32_t port = 0xC000; sockets.size() < 500; ++port)
      if (const int fd = bound_socket(elsewhere(), static_cast<uint16_t>(port), {}); fd >= 0)
        sockets.push_back(fd);
    for (uint32_t i = 0;; ++i) {
      (void)send_from(sockets[i % 500], peer->address(), victim->address(), frame_bytes(1, 64));
      if (i % 5000 == 0 && ::write(ends[1], "", 1) != 1) return 1;
    }
    return 0;
  });
  ::close(ends[1]);
  const auto lookups = [&] { return counter(*victim, "udp_sender_lookups"); };
  uint32_t arrived = 0;
  const auto look = [&] {
    Frame frames[64];
    const size_t n = victim->receive(frames);
    arrived += static_cast<uint32_t>(n);
    victim->release({frames, n});
  };
  while (counter(*victim, "udp_rx_foreign_sender") < 20'000) look();
  REQUIRE(arrived == 0);
  // 100 bursts of the peer: it is delayed by one round of lookups at most, and then known.
  uint32_t tries = 0;
  const Path path = path_between(*peer, *victim, 0xF000);
  const Bytes bytes = frame_bytes(1, 64);
  const TxFrame frame = whole_frame(path, bytes);
  while (arrived < 100) {
    ++tries;
    REQUIRE(base::wall_now() - begin < Duration::from_s(100));
    while (peer->transmit({&frame, 1}) == 0) ::usleep(100);
    for (int i = 0; i < 50; ++i) look();
  }
  INFO(tries << " tries, " << lookups() << " lookups");
  CHECK(counter(*victim, "udp_sender_ports_held") == 1);
  const int64_t ms = (base::wall_now() - begin).ms() + 1;
  CHECK(lookups() <=
        2 * port::udp::SenderCheck::kBurst +
            static_cast<uint64_t>(ms) * port::udp::SenderCheck::kLookupsPerSecond / 1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
}

TEST_CASE("udp: with check_senders=0 a socket of another user passes for a peer") {
  if (::geteuid() != 0) WEFT_SKIP("udp senders", "changing the user needs root");
  const auto victim = open_port("lo");
  const auto peer = open_port("lo", {{"check_senders", "1"}});
  const int sent = as_other_user([&] {
    return int{send_from(bound_socket(elsewhere(), 0xC654, {}), peer->address(), victim->address(),
                         frame_bytes(1, 64))};
  });
  CHECK(sent == 1);
  CHECK(drain(*victim, 1).size() == 1);
}
