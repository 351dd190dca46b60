// SPDX-License-Identifier: BSD-3-Clause
// A peer that is gone ends the messages to it when something says so, and no others; a peer that is
// stopped costs time only.
#include <set>

#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;
using transport::PeerSign;

namespace {

SrdOptions lost_options() {
  SrdOptions o;
  o.stations = 3;
  o.capabilities.asks = true;
  return o;
}

struct Lost {
  SrdWorld world{lost_options()};
  SrdStation &a = world[0], &b = world[1], &c = world[2];

  // Each knows the other.
  void meet(SrdStation& other) {
    REQUIRE(a.write(other, 8));
    REQUIRE(world.run_until([this] { return !a.sent().empty(); }));
  }
  void cut(SrdStation& other, bool on) {
    const Gid to = other.host().address();
    a.life().tap->cut = [to, on](const transport::Path& path) {
      return on && path.destination == to;
    };
  }
  void lose(SrdStation& peer, PeerSign sign) {
    a.engine().lose_peer({.address = peer.host().address(), .sign = sign}, world.network.now());
  }
};

}  // namespace

TEST_CASE("SRD: a sign that the peer is gone ends all messages to it, and to no other") {
  Lost t;
  t.meet(t.b);
  t.meet(t.c);
  t.cut(t.b, true);
  for (uint64_t id = 0; id < 3; ++id) REQUIRE(t.a.write(t.b, 100'000, 0, id));
  REQUIRE(t.a.write(t.c, 100'000, 0, 9));
  t.world.run_for(Duration::from_us(20));
  t.lose(t.b, PeerSign::device_closed);
  std::vector<Completion> ends;
  for (const Completion& c : t.a.sent())
    if (c.id != 9) ends.push_back(c);
  REQUIRE(ends.size() == 3);
  for (const Completion& c : ends) {
    CHECK(c.status == Status::retry_exceeded);
    CHECK(transport::sign_of(c.vendor_error) == PeerSign::device_closed);
    CHECK((c.vendor_error & 1) == 1);
  }
  CHECK(t.a.count(Count::peers_lost) == 1);
  CHECK(t.a.qp().state == QpState::rts);
  t.cut(t.b, false);
  // The stream to it is over: what is sent now arrives in a new one.
  REQUIRE(t.a.write(t.b, 8, 0, 20));
  std::set<uint64_t> good;
  REQUIRE(t.world.run_until([&] {
    for (const Completion& c : t.a.sent())
      if (c.status == Status::success) good.insert(c.id);
    return good.contains(20);
  }));
}

TEST_CASE(
    "SRD: a sign ends nothing of a peer without messages, by another way, or of another slot") {
  Lost t;
  t.meet(t.b);
  t.lose(t.b, PeerSign::process_ended);
  REQUIRE(t.a.write(t.b, 100, 0, 1));
  t.a.engine().lose_peer(
      {.address = t.b.host().address(), .in_memory = true, .sign = PeerSign::process_ended},
      t.world.network.now());
  t.a.engine().lose_peer({.address = t.b.host().address(),
                          .slot = static_cast<uint8_t>((t.b.number().value >> 16) + 1),
                          .sign = PeerSign::process_ended},
                         t.world.network.now());
  std::vector<Completion> ends;
  REQUIRE(t.world.run_until([&] { return !(ends = t.a.sent()).empty(); }));
  CHECK(ends[0].status == Status::success);
  CHECK(t.a.count(Count::peers_lost) == 0);
}

TEST_CASE(
    "SRD: a silent peer is lost after two seconds, and a stopped one is waited for, and goes on") {
  Lost t;
  t.meet(t.b);
  const bool stopped = GENERATE(true, false);
  if (stopped) t.a.life().tap->peer_place = [] { return std::optional<uint64_t>{5}; };
  t.cut(t.b, true);
  REQUIRE(t.a.write(t.b, 100, 0, 1));
  t.world.run_for(Duration::from_ms(1900));
  CHECK(t.a.sent().empty());
  t.world.run_for(Duration::from_ms(500));
  if (!stopped) {
    const std::vector<Completion> ends = t.a.sent();
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].status == Status::retry_exceeded);
    CHECK(transport::sign_of(ends[0].vendor_error) == PeerSign::none);
    return;
  }
  t.world.run_for(Duration::from_s(20));
  CHECK(t.a.sent().empty());
  t.cut(t.b, false);
  std::vector<Completion> ends;
  REQUIRE(t.world.run_until([&] { return !(ends = t.a.sent()).empty(); }));
  CHECK(ends[0].status == Status::success);
}

TEST_CASE("SRD: a process that reads what it is sent, and never answers, is given up") {
  Lost t;
  t.meet(t.b);
  uint64_t place = 0;
  t.a.life().tap->peer_place = [&place] { return std::optional<uint64_t>{++place}; };
  t.cut(t.b, true);
  REQUIRE(t.a.write(t.b, 100, 0, 1));
  t.world.run_for(Duration::from_s(5));
  const std::vector<Completion> ends = t.a.sent();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].status == Status::retry_exceeded);
}

TEST_CASE(
    "SRD: the host of a peer that falls silent is asked, and one that has not come yet is not") {
  Lost t;
  t.cut(t.b, true);
  REQUIRE(t.a.write(t.b, 100, 0, 1));
  t.world.run_for(Duration::from_ms(100));
  CHECK(t.a.life().tap->asked.empty());
  t.cut(t.b, false);
  REQUIRE(t.world.run_until([&] { return !t.a.sent().empty(); }));
  t.cut(t.b, true);
  REQUIRE(t.a.write(t.b, 100, 0, 2));
  t.world.run_for(Duration::from_ms(20));
  REQUIRE(!t.a.life().tap->asked.empty());
  CHECK(t.a.life().tap->asked[0].size() == 32);
  CHECK(t.a.life().tap->asked[0][0] == std::byte{24});
}
