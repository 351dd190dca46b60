// SPDX-License-Identifier: BSD-3-Clause
// A peer that guesses keys: each guess costs it a queue pair, and eight within a second cost it the
// right to connect for a while (lib/roce/state/violations.hpp). //= threat:A04
#include <deque>

#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

struct Guesser : Pair {
  explicit Guesser(bool throttle = true) : Pair(options(throttle)) {}
  static PairOptions options(bool throttle) {
    PairOptions o;
    o.station_b.engine.throttle = throttle;
    return o;
  }
  // The passive side connects its queue pair to `peer`.
  Result<void> walk(Endpoint& e, const Gid& peer, QpNum number) {
    roce::Engine& engine = station_b.engine();
    engine.set_time(world.now());
    REQUIRE(engine.modify_qp(e.qp(), {.state = QpState::init,
                                      .pkey_index = uint16_t{0},
                                      .port = uint8_t{1},
                                      .access = Access::all}));
    return engine.modify_qp(e.qp(), {.state = QpState::rtr,
                                     .path = AddressVector{.destination = peer},
                                     .path_mtu = 1024,
                                     .dest_qpn = number,
                                     .rq_psn = Psn{7},
                                     .max_dest_rd_atomic = uint8_t{4},
                                     .min_rnr_timer = uint8_t{6}});
  }
  Result<void> connect(Endpoint& asked, Endpoint& asks) {
    const Result<void> walked = walk(asked, station_a.address(), asks.qp().number);
    if (!walked) return walked;
    world.to_rtr(asks, station_b.address(), asked.qp().number, Psn{9}, {});
    world.to_rts(asks, Psn{7}, {});
    world.to_rts(asked, Psn{9}, {});
    return {};
  }
  void use_wrong_key(Endpoint& asks) {
    const Sge sge = station_a.sge(0, 8);
    SendRequest r = request(Opcode::write, 1, {&sge, 1});
    r.rkey = RKey{station_b.key() + (++guesses << 8)};
    REQUIRE(asks.send(r));
  }
  // One connection, one key. Empty: there was no connection.
  std::optional<Status> guess() {
    Endpoint asked(station_b), asks(station_a);
    const Result<void> walked = connect(asked, asks);
    std::optional<Status> status;
    if (walked) {
      use_wrong_key(asks);
      REQUIRE(world.run());
      status = asks.only_sent().status;
    } else {
      CHECK(walked.error().code == Code::busy);
      CHECK(walked.error().message.find("wrong keys") != std::string::npos);
    }
    station_a.engine().destroy_qp(&asks.qp());
    station_b.engine().destroy_qp(&asked.qp());
    return status;
  }
  uint32_t guesses = 0;
};

TEST_CASE("after eight invalid keys within a second a peer is throttled, threat:A04") {
  Guesser t;
  for (int i = 0; i < 8; ++i) REQUIRE(t.guess() == Status::remote_access_error);
  CHECK_FALSE(t.guess());
  CHECK(t.station_b.count(Count::connects_throttled) == 1);
  CHECK(t.station_b.count(Count::access_errors) == 8);
  // Other peers are not throttled, and connections continue.
  Endpoint other(t.station_b);
  CHECK(t.walk(other, sim::host_address(66), QpNum{5}));
  t.station_b.engine().destroy_qp(&other.qp());
  const Sge sge = t.station_a.sge(0, 8);
  REQUIRE(t.a.send(t.request(Opcode::write, 1, {&sge, 1})));
  REQUIRE(t.world.run());
  CHECK(t.a.only_sent().status == Status::success);
  // A guess each 125 ms, and eight after a second of good conduct.
  t.world.run_for(Duration::from_ms(130));
  CHECK(t.guess() == Status::remote_access_error);
  CHECK_FALSE(t.guess());
  t.world.run_for(Duration::from_ms(1100));
  for (int i = 0; i < 8; ++i) CHECK(t.guess() == Status::remote_access_error);
  CHECK_FALSE(t.guess());
}

TEST_CASE("any number of violations at once is forgiven a second later, threat:A04") {
  Guesser t;
  std::deque<Endpoint> asked, asks;
  for (int i = 0; i < 100; ++i) {
    asked.emplace_back(t.station_b);
    asks.emplace_back(t.station_a);
    REQUIRE(t.connect(asked.back(), asks.back()));
  }
  for (Endpoint& each : asks) t.use_wrong_key(each);
  REQUIRE(t.world.run());
  CHECK(t.station_b.count(Count::access_errors) == 100);
  CHECK_FALSE(t.guess());
  t.world.run_for(Duration::from_ms(1010));
  CHECK(t.guess() == Status::remote_access_error);
}

TEST_CASE("a peer that guesses continuously makes eight guesses a second, threat:A04") {
  const bool throttle = GENERATE(true, false);
  Guesser t(throttle);
  constexpr uint32_t kSeconds = 20;
  const Instant begin = t.world.now();
  uint32_t made = 0, tried = 0;
  while (t.world.now() - begin < Duration::from_s(kSeconds)) {
    ++tried;
    made += t.guess().has_value();
    t.world.run_for(Duration::from_ms(5));
  }
  CHECK(tried > 3000);
  if (throttle) CHECK(made <= 8 + 8 * kSeconds);
  if (throttle) CHECK(made >= 8 * kSeconds - 8);
  if (!throttle) CHECK(made == tried);
}

}  // namespace
}  // namespace weft::test
