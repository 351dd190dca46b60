// SPDX-License-Identifier: BSD-3-Clause
// What a port says of peers that are gone, and of one that is stopped.
#include <sys/socket.h>

#include "providers/port/shm/rendezvous.hpp"
#include "tests/ports/shm/shm_echo.hpp"

using namespace shm_test;
namespace shm = weft::port::shm;
using weft::QpNum;
using weft::transport::LostPeer;
using weft::transport::LostPeers;
using weft::transport::PeerSign;

namespace {

// A port that is told which peers are lost.
struct Watcher {
  explicit Watcher(const std::string& where, const Options& options = {})
      : port(open_port(where, options)) {
    port->report_lost_peers(lost);
  }
  // Receives until a peer is lost, which the port then has said once.
  LostPeer wait() {
    const Deadline deadline(20'000);
    while (lost.empty() && !deadline.passed()) collect(*port, got);
    REQUIRE(!lost.empty());
    const LostPeer peer = lost.take();
    for (int i = 0; i < 5000; ++i) collect(*port, got);
    CHECK(lost.empty());
    return peer;
  }

  LostPeers lost;  // outlives the port
  std::unique_ptr<Port> port;
  std::vector<Received> got;
};

}  // namespace

TEST_CASE("shm: a peer that is killed is lost, once, and so is one that is stopped first") {
  Watcher a(job());
  const bool stopped = GENERATE(false, true);
  for (int round = 0; round < 3; ++round) {
    Echo echo(job());
    REQUIRE(ask(*a.port, echo.address, pattern(32, 1), pattern(5000, 2)).size() == 1);
    if (stopped) kill(echo.pid, SIGSTOP);
    echo.kill_now();
    const LostPeer lost = a.wait();
    CHECK(lost.address == echo.address);
    CHECK(lost.sign == PeerSign::process_ended);
    CHECK(lost.slot == 0);
    CHECK(!lost.in_memory);
  }
}

TEST_CASE("shm: a port that is closed is lost though its process lives, behind what it sent") {
  Watcher a(job());
  auto b = open_port(job());
  const Gid address = b->address();
  link_up(*a.port, *b);
  for (uint64_t i = 0; i < 100; ++i) REQUIRE(send(*b, a.port->address(), pattern(32, i)));
  b.reset();
  size_t received = 0;
  a.port->finish_wait();  // as a sleeper that was woken: the next call looks at connections
  const Deadline deadline(20'000);
  while (a.lost.empty() && !deadline.passed()) {
    Frame frames[7];
    const size_t count = a.port->receive(frames);
    if (count != 0) a.port->release(std::span(frames, count));
    received += count;
  }
  CHECK(received == 100);
  const LostPeer lost = a.wait();
  CHECK(lost.address == address);
  CHECK(lost.sign == PeerSign::device_closed);
}

TEST_CASE("shm: of ports that share an address the one that is gone is named") {
  Watcher a(job(), {{"shared", "1"}});
  Echo echo(job(), {{"shared", "1"}});
  const auto slot = static_cast<uint8_t>(echo.qpn >> 16);
  Bytes frame = pattern(32, 1);
  frame[5] = static_cast<std::byte>(slot);  // the destination's, where a BTH has it
  REQUIRE(send(*a.port, echo.address, frame));
  std::vector<Received> got;
  const Deadline deadline(20'000);
  while (counter(*a.port, "shm_links_in") == 0 && !deadline.passed()) collect(*a.port, got);
  echo.kill_now();
  const LostPeer lost = a.wait();
  CHECK(lost.address == echo.address);
  CHECK(lost.slot == slot);
  CHECK(lost.sign == PeerSign::process_ended);
}

TEST_CASE("shm: what lies unread at a stopped process is known, and that this process lives") {
  Watcher a(job());
  Echo echo(job());
  const auto place = [&] { return a.port->unread(echo.address, QpNum{1}, false); };
  CHECK(!place());
  REQUIRE(ask(*a.port, echo.address, pattern(32, 1), {}).size() == 1);
  CHECK(!place());
  kill(echo.pid, SIGSTOP);
  REQUIRE(send(*a.port, echo.address, pattern(32, 2)));
  const std::optional<uint64_t> before = place();
  REQUIRE(before);
  for (int i = 0; i < 100; ++i) collect(*a.port, a.got);
  CHECK(place() == before);
  CHECK(!a.port->unread(echo.address, QpNum{1}, true));
  CHECK(!a.port->unread(a.port->address(), QpNum{1}, false));
  CHECK(a.lost.empty());
  kill(echo.pid, SIGCONT);
  CHECK(receive(*a.port, 1).size() == 1);
  CHECK(!place());
  CHECK(a.lost.empty());
}

TEST_CASE(
    "shm: a link that the peer cuts is made again, and the peer is lost when no one listens") {
  Watcher a(job());
  const Gid gid = shm::make_gid(0x2222);
  auto listener = shm::listen_at(job(), gid);
  REQUIRE(listener);
  REQUIRE(send(*a.port, gid, pattern(32, 1)));
  const int cut = accept(listener->fd(), nullptr, nullptr);
  REQUIRE(cut >= 0);
  close(cut);
  for (int i = 0; i < 5000; ++i) collect(*a.port, a.got);
  CHECK(a.lost.empty());
  const int again = accept(listener->fd(), nullptr, nullptr);
  REQUIRE(again >= 0);
  *listener = shm::Descriptor();
  for (int i = 0; i < 5000; ++i) collect(*a.port, a.got);
  CHECK(a.lost.empty());  // the link is there
  close(again);
  const LostPeer lost = a.wait();
  CHECK(lost.address == gid);
  CHECK(lost.sign == PeerSign::device_closed);
}
