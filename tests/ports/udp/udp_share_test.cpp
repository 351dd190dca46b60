// SPDX-License-Identifier: BSD-3-Clause
// Several ports share one address, in one process and in several: each gets the frames of its QPNs,
// any of the sockets that share the port, and the death of one harms no other.
// ctest: serial
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/ports/udp/udp_frames.hpp"

using namespace udp_test;

namespace {

using Ports = std::vector<std::unique_ptr<Port>>;

// Sends one frame and one train to a QPN of each member; each must get exactly its own.
void check_delivery(const Ports& members, uint32_t rounds) {
  Port& from = *members[0];
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const auto& to : members) {
      const Path path = path_between(from, *to, static_cast<uint16_t>(0xC000 + round));
      const uint32_t qpn = to->qpn_range().first + round;
      std::vector<Bytes> bytes;
      std::vector<TxFrame> frames;
      for (uint32_t k = 0; k < 6; ++k) bytes.push_back(frame_bytes(k + round, 100, qpn));
      for (uint32_t k = 0; k < 6; ++k)
        frames.push_back(whole_frame(path, bytes[k], static_cast<uint16_t>(k > 0 ? k - 1 : 0)));
      REQUIRE(from.transmit(frames) == frames.size());
      // A frame that reached the wrong member waits there until that member looks.
      std::vector<Got> got;
      for (int turn = 0; turn < 100 && got.size() < 6; ++turn) {
        for (const auto& other : members) {
          if (other == to) continue;
          Frame foreign[16];
          const size_t n = other->receive(foreign);
          CHECK(n == 0);
          other->release({foreign, n});
        }
        Frame mine[16];
        const size_t n = to->receive(mine);
        for (size_t i = 0; i < n; ++i) {
          got.push_back({Bytes(mine[i].bytes, mine[i].bytes + mine[i].length), *mine[i].path,
                         mine[i].ip_id, mine[i].ip_id_known, mine[i].ecn});
        }
        to->release({mine, n});
      }
      REQUIRE(got.size() == 6);
      for (uint32_t k = 0; k < 6; ++k) {
        CHECK(got[k].bytes == bytes[k]);
        CHECK(got[k].path.source == from.address());
        CHECK(got[k].path.source_port == path.source_port);
      }
    }
  }
}

uint64_t total(const Ports& members, std::string_view name) {
  uint64_t sum = 0;
  for (const auto& member : members) sum += counter(*member, name);
  return sum;
}

uint8_t slot(const Port& port) { return static_cast<uint8_t>(port.qpn_range().first >> 16); }

// A child process that runs `body` and answers with its result.
template <class Body>
pid_t child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}

int result_of(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Opens a member without Catch, for children. Null: it failed.
std::unique_ptr<Port> try_open(const std::string& where) {
  Result<std::unique_ptr<Port>> port = port::open_udp_port({where, {}});
  return port ? std::move(*port) : nullptr;
}

// Echoes frames for our QPNs back to where they came from until the pipe `end` closes: a member
// that left earlier could take frames of the others with it. 0 = they were `count`.
int echo(Port& port, int count, uint32_t back_to, int end) {
  Frame frames[32];
  for (int idle = 0; idle < 5;) {
    const size_t n = port.receive(frames);
    for (size_t i = 0; i < n; ++i) {
      if (static_cast<uint8_t>(frames[i].bytes[5]) != slot(port)) return 3;
      Path path;
      path.source = port.address();
      path.destination = frames[i].path->source;
      path.source_port = port.source_port(0xE000, 0);
      Bytes answer(frames[i].bytes, frames[i].bytes + frames[i].length);
      answer[5] = static_cast<std::byte>(back_to >> 16);
      const TxFrame frame = whole_frame(path, answer);
      if (port.transmit({&frame, 1}) != 1) return 4;
      --count;
    }
    port.release({frames, n});
    std::vector<pollfd> waits;
    if (n > 0 || !port.prepare_wait(waits, false)) continue;
    waits.push_back({end, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), 1000) == 0) ++idle;
    port.finish_wait();
    if (waits.back().revents != 0) break;
  }
  return count == 0 ? 0 : 5;
}

bool run(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

}  // namespace

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

  // One leaves and another comes: the kernel's order of sockets and the slots disagree now.
  const uint8_t free_slot = slot(*members[0]);
  members.erase(members.begin());
  check_delivery(members, 10);
  members.push_back(open_port("::1"));
  CHECK(slot(*members.back()) == free_slot);
  check_delivery(members, 10);
  CHECK(total(members, "udp_forwarded") > 0);
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

// Processes are killed at once, so that none knows in which order their sockets were closed.
TEST_CASE("udp: the kernel selects the right socket again after some were closed") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const auto victim = [&] {
    const pid_t pid = child([&] {
      const auto port = try_open("127.78.4.1");
      if (!port || ::write(ready[1], "+", 1) != 1) return 1;
      for (;;) ::pause();
      return 0;
    });
    char mark = 0;
    REQUIRE(::read(ready[0], &mark, 1) == 1);
    return pid;
  };
  const pid_t first = victim(), second = victim();
  Ports members;
  for (int i = 0; i < 4; ++i) members.push_back(open_port("127.78.4.1"));
  const pid_t third = victim();
  check_delivery(members, 4);
  CHECK(total(members, "udp_forwarded") == 0);
  for (const pid_t pid : {second, third, first}) REQUIRE(::kill(pid, SIGKILL) == 0);
  for (const pid_t pid : {second, third, first}) CHECK(result_of(pid) == -1);
  check_delivery(members, 20);
  members.erase(members.begin() + 1);
  members.push_back(open_port("127.78.4.1"));
  members.erase(members.begin());
  check_delivery(members, 20);
  const uint64_t forwarded = total(members, "udp_forwarded");
  check_delivery(members, 20);
  CHECK(total(members, "udp_forwarded") == forwarded);
  CHECK(total(members, "udp_forward_drops") == 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("udp: the file of an address whose members were killed goes with the next open") {
  const std::string file = "ls /dev/shm /tmp | grep -q 'weft-udp-.*-127.78.4.3-'";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t victim = child([&] {
    const auto port = try_open("127.78.4.3");
    if (!port || ::write(ready[1], "+", 1) != 1) return 1;
    for (;;) ::pause();
    return 0;
  });
  char mark = 0;
  REQUIRE(::read(ready[0], &mark, 1) == 1);
  { const auto elsewhere = open_port("127.78.4.4"); }
  CHECK(run(file));  // in use
  REQUIRE(::kill(victim, SIGKILL) == 0);
  CHECK(result_of(victim) == -1);
  { const auto elsewhere = open_port("127.78.4.4"); }
  CHECK_FALSE(run(file));
  ::close(ready[0]);
  ::close(ready[1]);
}

// Its slot is claimed again: the member that was killed is no other device.
TEST_CASE("udp: an address of a device's own is free after its process was killed") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  transport::PortOptions options{"127.78.4.5", {{"shared", "0"}}};
  options.engines = 2;
  const pid_t victim = child([&] {
    const auto port = port::open_udp_port(options);
    if (!port || ::write(ready[1], "+", 1) != 1) return 1;
    for (;;) ::pause();
    return 0;
  });
  char mark = 0;
  REQUIRE(::read(ready[0], &mark, 1) == 1);
  CHECK_FALSE(port::open_udp_port(options));
  REQUIRE(::kill(victim, SIGKILL) == 0);
  CHECK(result_of(victim) == -1);
  CHECK(port::open_udp_port(options));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("udp: members on one address claim services once each") {
  constexpr uint64_t kService = 0x0106'1B58;
  Ports members;
  for (int i = 0; i < 2; ++i) {
    members.push_back(open_port("127.78.4.2"));
    members.back()->open_general_services();
  }
  REQUIRE(members[0]->claim_service(kService));
  REQUIRE(members[1]->claim_service(kService + 1));
  const Result<void> taken = members[1]->claim_service(kService);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Code::address_in_use);
  CHECK(taken.error().message.find("process " + std::to_string(::getpid())) != std::string::npos);
  members[0]->release_service(kService);
  REQUIRE(members[1]->claim_service(kService));
  members.pop_back();  // with its services
  CHECK(members[0]->claim_service(kService));
  CHECK(members[0]->claim_service(kService + 1));
}

TEST_CASE("udp: the shared loopback address is one for a user, and the next for another") {
  if (::geteuid() != 0) WEFT_SKIP("udp two users", "changing the user needs root");
  const Keys shared = {{"shared", "1"}};
  const auto mine = open_port("lo", shared), again = open_port("lo", shared);
  CHECK(mine->address() == again->address());
  CHECK(mine->address().bytes[15] == 1);
  const std::string text = to_string(mine->address());
  const pid_t other_user = child([&] {
    if (::setuid(65534) != 0) return 1;
    const auto first = port::open_udp_port({"lo", shared}),
               more = port::open_udp_port({"lo", shared});
    if (!first || !more) return 2;
    if ((*first)->address() == mine->address()) return 3;
    if ((*first)->address() != (*more)->address()) return 4;
    const auto refused = port::open_udp_port({text, {}});
    if (refused || refused.error().code != Code::address_in_use) return 5;
    return refused.error().message.find("of user 0") != std::string::npos ? 0 : 6;
  });
  CHECK(result_of(other_user) == 0);
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
      const std::vector<Got> got = drain(*port, 1);
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
