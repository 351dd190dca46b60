// SPDX-License-Identifier: BSD-3-Clause
// A peer that is gone ends the requests to it when something says so, and no others; a peer that is
// stopped costs time only.
#include "tests/support/catch.hpp"
#include "tests/virtual_time/rc_pair.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;
using transport::LostPeer;
using transport::PeerSign;

namespace {

// Station `a` has a queue pair to each of `b` and `c`; the network can be cut.
struct Three {
  World world;
  Station& a = world.add_station(asking());
  Station& b = world.add_station();
  Station& c = world.add_station();
  Endpoint to_b{a}, to_c{a}, at_b{b}, at_c{c};

  explicit Three(const ConnectOptions& options = {}) {
    world.cable(a, b);
    world.cable(a, c);
    world.connect(to_b, at_b, options);
    world.connect(to_c, at_c, options);
  }
  static StationOptions asking() {
    StationOptions o;
    o.capabilities.asks = true;
    return o;
  }
  void cut(const Station& from, bool on) {
    a.tap().cut = [&from, on](const transport::Path& path) {
      return on && path.destination == from.address();
    };
  }
  void write(Endpoint& by, Station& to, uint64_t id) {
    const Sge sge = a.sge(0, 100);
    REQUIRE(by.send({.id = id,
                     .opcode = Opcode::write,
                     .sges = {&sge, 1},
                     .remote_address = to.address_of(0),
                     .rkey = RKey{to.key()}}));
  }
  void lose(const Station& peer, PeerSign sign = PeerSign::process_ended) {
    a.engine().lose_peer({.address = peer.address(), .sign = sign}, world.now());
  }
};

}  // namespace

TEST_CASE("a sign that the peer is gone ends what is outstanding, at once and once") {
  Three t;
  t.cut(t.b, true);
  t.cut(t.b, true);
  for (uint64_t id = 0; id < 3; ++id) t.write(t.to_b, t.b, id);
  t.write(t.to_c, t.c, 9);
  t.lose(t.b, PeerSign::port_unreachable);
  const std::vector<Completion> ends = t.to_b.sent();
  REQUIRE(ends.size() == 3);
  CHECK(ends[0].status == Status::retry_exceeded);
  CHECK(transport::sign_of(ends[0].vendor_error) == PeerSign::port_unreachable);
  CHECK(ends[1].status == Status::flushed);
  CHECK(ends[2].status == Status::flushed);
  CHECK(t.to_b.qp().state == QpState::err);
  CHECK(t.a.count(Count::peers_lost) == 1);
  PeerSign noted = PeerSign::none;
  t.a.engine().incidents().visit([&](const transport::Incident& i) { noted = i.sign; });
  CHECK(noted == PeerSign::port_unreachable);
  t.world.run();
  CHECK(t.to_b.sent().empty());
  CHECK(t.to_c.only_sent().status == Status::success);
}

TEST_CASE("a sign ends nothing of a queue pair without requests, by another way, or to others") {
  Three t;
  t.lose(t.b);
  CHECK(t.to_b.qp().state == QpState::rts);
  t.write(t.to_b, t.b, 1);
  t.a.engine().lose_peer(
      {.address = t.b.address(), .in_memory = true, .sign = PeerSign::process_ended},
      t.world.now());
  t.a.engine().lose_peer({.address = t.b.address(),
                          .slot = static_cast<uint8_t>((t.at_b.qp().number.value >> 16) + 1),
                          .sign = PeerSign::process_ended},
                         t.world.now());
  t.world.run();
  CHECK(t.to_b.only_sent().status == Status::success);
  CHECK(t.a.count(Count::peers_lost) == 0);
}

TEST_CASE("a peer that is stopped costs no retries, and goes on, and a silent one uses them up") {
  const bool stopped = GENERATE(true, false);
  const uint8_t retries = GENERATE(0, 7);
  Three t({.timeout = 8, .retry_count = retries});
  if (stopped) t.a.tap().peer_place = [] { return std::optional<uint64_t>{5}; };
  t.cut(t.b, true);
  t.write(t.to_b, t.b, 1);
  t.world.run_for(Duration::from_s(3));
  if (!stopped) {
    CHECK(t.to_b.only_sent().status == Status::retry_exceeded);
    return;
  }
  CHECK(t.to_b.sent().empty());
  t.cut(t.b, false);
  t.world.run();
  CHECK(t.to_b.only_sent().status == Status::success);
}

TEST_CASE("a process that reads what it is sent, and never answers, is given up") {
  Three t({.timeout = 8});
  uint64_t place = 0;
  t.a.tap().peer_place = [&place] { return std::optional<uint64_t>{++place}; };
  t.cut(t.b, true);
  t.write(t.to_b, t.b, 1);
  t.world.run_for(Duration::from_s(3));
  CHECK(t.to_b.only_sent().status == Status::retry_exceeded);
}

TEST_CASE("the host of a silent peer is asked, if that is a queue pair of weft") {
  const bool selective = GENERATE(true, false);
  Three t({.timeout = 8, .selective_repeat = selective});
  t.cut(t.b, true);
  t.write(t.to_b, t.b, 1);
  t.world.run_for(Duration::from_ms(5));
  CHECK(t.a.tap().asked.empty() == !selective);
  for (const std::vector<std::byte>& datagram : t.a.tap().asked) {
    CHECK(datagram.size() == 20);
    CHECK(datagram.front() == std::byte{0xC1});
  }
  if (t.a.tap().asked.size() > 1) CHECK(t.a.tap().asked[0] != t.a.tap().asked[1]);  // the nonces
}

TEST_CASE("a queue pair that is asked about drops that without a count") {
  Pair p;
  std::vector<std::byte> datagram(20);
  datagram[0] = std::byte{0xC1};
  datagram[7] = std::byte{1};
  p.world.inject(p.station_b,
                 {.source = p.station_a.address(), .destination = p.station_b.address()}, datagram);
  p.world.run();
  check_quiet(p.station_b);
  CHECK(p.station_b.count(Count::rx_packets) == 1);
}
