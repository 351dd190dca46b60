// SPDX-License-Identifier: BSD-3-Clause
// Several ports share one address, in one process and in several: each gets the frames of its QPNs,
// any of the sockets that share the port, and the death of one harms no other.
// ctest: serial
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/ports/udp/udp_members.hpp"

using namespace udp_test;

TEST_CASE("udp: members of one address get the frames of their own QPNs") {
  if (!has_ipv6_loopback()) WEFT_SKIP("udp members", "this machine has no ::1");
  Ports members;
  for (int i = 0; i < 4; ++i) members.push_back(open_port("::1"));
  std::map<uint32_t, uint32_t> ranges;
  for (const auto& member : members) {
    CHECK(member->address() == members[0]->address());
    ranges[member->qpn_range().first] = member->qpn_range().count;
  }
  CHECK(ranges.size() == 4);
  for (const auto& [first, count] : ranges) {
    CHECK(count == 0x10000);
    CHECK(first >= 0x10000);
    CHECK(first < 0xFF0000);
  }
  check_delivery(members, 10);
  CHECK(total(members, "udp_forwarded") == 0);  // the steering program knows the order

  // One leaves and another comes: the order of slots is not that of the sockets now.
  const uint8_t free_slot = slot(*members[0]);
  members.erase(members.begin());
  check_delivery(members, 10);
  members.push_back(open_port("::1"));
  CHECK(slot(*members.back()) == free_slot);
  check_delivery(members, 10);
  CHECK(total(members, "udp_forwarded") == 0);
  CHECK(total(members, "udp_forward_drops") == 0);
}

TEST_CASE("udp: frames for an unknown QPN belong to the lowest slot") {
  if (!has_ipv6_loopback()) WEFT_SKIP("udp lowest slot", "this machine has no ::1");
  Ports members;
  for (int i = 0; i < 4; ++i) members.push_back(open_port("::1"));
  Port* lowest = members[0].get();
  for (const auto& member : members)
    if (slot(*member) < slot(*lowest)) lowest = member.get();
  for (int round = 0; round < 2; ++round) {
    uint32_t sent = 0;
    for (const uint32_t qpn : {0x000001u, 0xFFFFFFu, 0xE10005u, 0xC00000u}) {
      for (uint32_t k = 0; k < 8; ++k, ++sent) {
        Port& from = *members.back();
        const Path path = path_between(from, *lowest, static_cast<uint16_t>(0xC100 + k));
        const Bytes bytes = frame_bytes(k, 60, qpn);
        const TxFrame frame = whole_frame(path, bytes);
        REQUIRE(from.transmit({&frame, 1}) == 1);
        for (int turn = 0; turn < 20; ++turn) {
          for (const auto& member : members) {
            Frame got[8];
            const size_t n = member->receive(got);
            CHECK((n == 0 || member.get() == lowest));
            sent -= static_cast<uint32_t>(n);
            member->release({got, n});
          }
        }
      }
    }
    CHECK(sent == 0);
    // The lowest one dies: the next is the owner.
    members.erase(std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.get() == lowest; }));
    lowest = members[0].get();
    for (const auto& member : members)
      if (slot(*member) < slot(*lowest)) lowest = member.get();
  }
}

TEST_CASE("udp: kill -9 of one member harms no other and frees its slot") {
  if (!has_ipv6_loopback()) WEFT_SKIP("udp kill", "this machine has no ::1");
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t victim = child([&] {
    const auto port = try_open("::1");
    const uint8_t claimed = port ? slot(*port) : 0;
    if (::write(ready[1], &claimed, 1) != 1) return 1;
    for (;;) ::pause();
    return 0;
  });
  uint8_t claimed = 0;
  REQUIRE(::read(ready[0], &claimed, 1) == 1);
  REQUIRE(claimed != 0);
  Ports members;
  members.push_back(open_port("::1"));
  members.push_back(open_port("::1"));
  CHECK(slot(*members[0]) != claimed);
  check_delivery(members, 4);
  REQUIRE(::kill(victim, SIGKILL) == 0);
  CHECK(result_of(victim) == -1);
  check_delivery(members, 10);
  members.push_back(open_port("::1"));
  CHECK(slot(*members.back()) == claimed);
  check_delivery(members, 10);
  ::close(ready[0]);
  ::close(ready[1]);
}

// The first frame waits for ARP, which is repeated after a second if an answer is lost: a link that
// has just come up loses frames until the kernel's work queue has activated it.
std::vector<Got> drain_one(Port& port) {
  std::vector<Got> got;
  for (int second = 0; got.empty() && second < 10; ++second) got = drain(port, 1);
  return got;
}

TEST_CASE("udp: two processes share one address of a veth") {
  const std::string name = "udp: two processes share one veth address";
  const Namespace host;
  if (!host) WEFT_SKIP(name, "a network namespace needs root");
  const bool made = run("ip link add weftv0 type veth peer name weftv1") &&
                    run("ip addr add 10.8.0.1/24 dev weftv0") && run("ip link set weftv0 up");
  if (!made) WEFT_SKIP(name, "no ip command or no veth here");
  int ready[2], end[2];
  REQUIRE((::pipe(ready) == 0 && ::pipe(end) == 0));
  // Two members on the host's address ...
  pid_t members[2];
  for (pid_t& member : members) {
    member = child([&] {
      ::close(end[1]);
      const auto port = try_open("weftv0");
      if (!port) return 2;
      const uint8_t mine = slot(*port);
      if (::write(ready[1], &mine, 1) != 1) return 1;
      return echo(*port, 200, 0x010000, end[0]);
    });
  }
  uint8_t slots[2] = {};
  for (uint8_t& one : slots) REQUIRE(::read(ready[0], &one, 1) == 1);
  CHECK(slots[0] != slots[1]);
  ::close(ready[0]);
  ::close(ready[1]);
  // ... and one on the other end of the cable.
  const std::string self =
      "/proc/" + std::to_string(::getpid()) + "/task/" + std::to_string(::gettid()) + "/ns/net";
  const int host_namespace = ::open(self.c_str(), O_RDONLY | O_CLOEXEC);
  {
    const Namespace peer;
    const int peer_namespace = ::open(self.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(::setns(host_namespace, CLONE_NEWNET) == 0);
    const bool moved = run("ip link set weftv1 netns /proc/" + std::to_string(::getpid()) + "/fd/" +
                           std::to_string(peer_namespace)) ||
                       run("ip link set weftv1 netns " + self);
    REQUIRE(::setns(peer_namespace, CLONE_NEWNET) == 0);
    ::close(peer_namespace);
    if (!moved || !run("ip addr add 10.8.0.2/24 dev weftv1") || !run("ip link set weftv1 up")) {
      ::close(end[1]);
      for (const pid_t member : members) result_of(member);
      ::close(host_namespace);
      WEFT_SKIP(name, "cannot move a veth into another namespace");
    }
    const auto port = open_port("weftv1");
    CHECK(port->address() == Gid::from_ipv4(10, 8, 0, 2));
    CHECK(port->capabilities().active_mtu == 1024);
    std::map<uint8_t, uint32_t> answers;
    for (uint32_t i = 0; i < 400; ++i) {
      Path path;
      path.source = port->address();
      path.destination = Gid::from_ipv4(10, 8, 0, 1);
      path.source_port = port->source_port(static_cast<uint16_t>(0xC000 + i % 7), 0);
      Bytes bytes = frame_bytes(i, 80, static_cast<uint32_t>(slots[i % 2]) << 16);
      const TxFrame frame = whole_frame(path, bytes);
      REQUIRE(port->transmit({&frame, 1}) == 1);
      const std::vector<Got> got = drain_one(*port);
      REQUIRE(got.size() == 1);
      bytes[5] = std::byte{1};
      CHECK(got[0].bytes == bytes);
      ++answers[slots[i % 2]];
    }
    CHECK(answers[slots[0]] == 200);
    CHECK(answers[slots[1]] == 200);
  }
  for (const int fd : {host_namespace, end[0], end[1]}) ::close(fd);
  for (const pid_t member : members) CHECK(result_of(member) == 0);
}

TEST_CASE("udp: a message on the group's socket from another user is refused, threat:A31") {
  if (::geteuid() != 0) WEFT_SKIP("udp foreign forwards", "changing the user needs root");
  if (!has_ipv6_loopback()) WEFT_SKIP("udp foreign forwards", "this machine has no ::1");
  const auto port = open_port("::1");
  const std::string path = "weft-udp/0/::1/4791/" + std::to_string(slot(*port));
  const pid_t other_user = child([&] {
    if (::setuid(65534) != 0) return 1;
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path + 1, path.data(), path.size());
    // As group.cpp writes it: magic, segment, ids, addresses, then a frame.
    std::byte forged[40 + 64] = {};
    const uint32_t head[2] = {0x77750001, 64};
    std::memcpy(forged, head, sizeof head);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
    const ssize_t n =
        ::sendto(fd, forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&to), length);
    return n == sizeof forged ? 0 : 2;
  });
  REQUIRE(result_of(other_user) == 0);
  for (int i = 0; i < 40; ++i) {
    Frame frames[4];
    const size_t n = port->receive(frames);
    CHECK(n == 0);
    port->release({frames, n});
  }
  CHECK(counter(*port, "udp_forward_refused") == 1);
}
