// SPDX-License-Identifier: BSD-3-Clause
// Inspection of devices through the socket of weft_stat, from inside the process: its contents
// while queue pairs are created and destroyed under traffic, and access after fork(). The program
// itself: tests/tools/weft_stat_test.py. ctest: serial
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>

#include "lib/verbs/provider.hpp"
#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

verbs::Inspection look(const Device& device) {
  const std::atomic<bool> stays{false};
  return device.context()->inspect(stays);
}

// All that the process answers at its socket; empty if there is none.
std::string ask(pid_t process) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "weft-stat/" + std::to_string(process);
  std::memcpy(&name.sun_path[1], text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  std::string answer;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), length) == 0) {
    char piece[4096];
    for (ssize_t got; (got = ::recv(fd, piece, sizeof piece, 0)) > 0;)
      answer.append(piece, static_cast<size_t>(got));
  }
  ::close(fd);
  return answer;
}

void events(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge local = near.sge(0, 8);
  REQUIRE(p.qa.post_send({.opcode = Opcode::write,
                          .sges = {&local, 1},
                          .remote_address = far.address(),
                          .rkey = RKey{far.region.rkey().value ^ 0x10}}));
  CHECK(p.next(p.a).status == Status::remote_access_error);
  const verbs::Inspection a = look(p.a.device), b = look(p.b.device);
  const auto has = [](const verbs::Inspection& found, std::string_view what, QpNum qp) {
    return std::any_of(found.events.begin(), found.events.end(), [&](const auto& event) {
      return event.what == what && event.qp == qp && event.ago >= Duration{} &&
             event.ago < Duration::from_s(60) && event.why.find("rkey") != event.why.npos;
    });
  };
  CHECK(has(a, "remote_access_error", p.qa.number()));
  CHECK(has(b, "qp_access_error", p.qb.number()));
  REQUIRE(a.queue_pairs.size() == 1);
  CHECK(a.queue_pairs[0].state == QpState::err);
  CHECK(a.note.empty());
}
WEFT_ON_WIRE(events, "a look tells of failed requests and events", udp)
WEFT_ON_WIRE(events, "a look tells of failed requests and events", udp_engines)
WEFT_ON_WIRE(events, "a look tells of failed requests and events", shm)

void numbers(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 8192), far(p.b, 8192);
  const Sge local = near.sge(0, 4096);
  for (int i = 0; i < 3; ++i)
    REQUIRE(p.qa.post_send({.opcode = Opcode::write,
                            .sges = {&local, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
  (void)p.wait(p.a, 3);
  const verbs::Inspection found = look(p.a.device);
  const verbs::QpReport& qp = found.queue_pairs.at(0);
  CHECK(qp.number == p.qa.number());
  CHECK(qp.peer == p.qb.number());
  CHECK(qp.address == p.b.device.attributes().gid);
  CHECK(qp.sent_packets == 3 * (4096 / qp.mtu));
  CHECK(qp.acked_packets == qp.sent_packets);
  CHECK(qp.posted_sends == 0);
  CHECK(qp.flow.in_flight == 0);
  CHECK(look(p.b.device).queue_pairs.at(0).received == 3);
}
WEFT_ON_WIRE(numbers, "a look counts packets of a queue pair", udp)
WEFT_ON_WIRE(numbers, "a look counts packets of a queue pair", udp_engines)
WEFT_ON_WIRE(numbers, "a look counts packets of a queue pair", shm)

void beside_changes(Wire wire) {
  Pair p(wire);
  std::atomic<bool> stop{false};
  std::thread looks([&] {
    while (!stop) {
      const std::string answer = ask(::getpid());
      if (!answer.empty() && answer.back() != '\n') std::abort();
    }
  });
  const Buffer near(p.a, 4096), far(p.b, 4096);
  const Sge local = near.sge(0, 4096);
  for (uint64_t round = 0; round < scaled(200); ++round) {
    std::vector<QueuePair> some;
    for (int i = 0; i < 40; ++i) some.push_back(p.a.queue_pair({}));
    REQUIRE(p.qa.post_send({.opcode = Opcode::write,
                            .sges = {&local, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
    REQUIRE(p.next(p.a).status == Status::success);
    const Side passing(device_string(wire));  // a device that opens and closes under the look
  }
  stop = true;
  looks.join();
}
WEFT_ON_WIRE(beside_changes, "looks while queue pairs and devices come and go", udp)
WEFT_ON_WIRE(beside_changes, "looks while queue pairs and devices come and go", udp_engines)
WEFT_ON_WIRE(beside_changes, "looks while queue pairs and devices come and go", srd_shm)

TEST_CASE("a device without locks is looked into when its application polls, or says why not") {
  const Device device = *Device::open("roce+shm:inspect-single,single_thread=1");
  CHECK(look(device).note.find("single_thread=1") !=
        std::string::npos);  // the application does not poll
  std::atomic<bool> stop{false};
  verbs::Inspection found;
  std::thread other([&] {
    found = look(device);
    stop = true;
  });
  while (!stop) device.progress();
  other.join();
  CHECK(found.note.empty());
  CHECK(!found.counters.empty());
}

TEST_CASE("with WEFT_STAT=0 there is no socket") {
  REQUIRE(::setenv("WEFT_STAT", "0", 1) == 0);
  const Device device = *Device::open("roce+udp:lo");
  CHECK(ask(::getpid()).empty());
  ::unsetenv("WEFT_STAT");
  const Device other = *Device::open("roce+udp:lo");
  const std::string answer = ask(::getpid());
  CHECK(answer.find(to_string(other.attributes().gid) + '"') != std::string::npos);
  CHECK(answer.find(to_string(device.attributes().gid) + '"') == std::string::npos);
}

TEST_CASE("a process answers while it has a device open, and a child of fork() for itself") {
  CHECK(ask(::getpid()).empty());
  {
    const Device device = *Device::open("roce+udp:lo");
    CHECK(ask(::getpid()).find("\"roce+udp:lo\"") != std::string::npos);
#if defined(__SANITIZE_THREAD__)
    return;  // the sanitizer cannot have threads in a child of a process with threads
#endif
    int ready[2], done[2];
    REQUIRE((::pipe(ready) == 0 && ::pipe(done) == 0));
    const pid_t child = ::fork();
    if (child == 0) {
      char word = 'n';
      {
        const auto own = Device::open("roce+shm:inspect-child");
        word = own.ok() ? 'y' : 'n';
        (void)!::write(ready[1], &word, 1);
        (void)!::read(done[0], &word, 1);
      }
      ::_exit(0);
    }
    char word = 0;
    REQUIRE(::read(ready[0], &word, 1) == 1);
    CHECK(word == 'y');
    const std::string of_child = ask(child);
    CHECK(of_child.find("inspect-child") != std::string::npos);
    CHECK(of_child.find("udp:lo") == std::string::npos);
    CHECK(ask(::getpid()).find("\"roce+udp:lo\"") != std::string::npos);
    REQUIRE(::write(done[1], &word, 1) == 1);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
  }
  CHECK(ask(::getpid()).empty());
}

}  // namespace
}  // namespace weft
