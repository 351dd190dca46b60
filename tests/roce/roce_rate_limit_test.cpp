// SPDX-License-Identifier: BSD-3-Clause
// Rate limits of queue pairs in virtual time: on each service what leaves keeps to the rate, to
// within 1 % where there is enough to send, and to rate x time + burst in every stretch of time;
// also what is sent again. The address vector that brings a static rate may change in SQD.
#include <functional>

#include "lib/congestion/registry.hpp"
#include "lib/roce/message/pacing.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kRateMtu = 1024;
constexpr size_t kRateMemory = 8u << 20;

// The frames with payload that a station sent, by the account of the limit.
struct Departures {
  std::vector<Instant> at;
  std::vector<double> bytes;

  void watch(
      World& world, Station& station, std::function<bool()> lost = [] { return false; }) {
    station.tap().filter = [this, &world, lost](const SentFrame& f) {
      if (f.bytes.size() < 200) return true;
      at.push_back(world.now());
      bytes.push_back(static_cast<double>(f.bytes.size() + roce::link_overhead(f.path)));
      return !lost();
    };
  }
  // Bits per second from the first to the last departure.
  double rate() const {
    double sum = 0;
    for (size_t i = 0; i + 1 < bytes.size(); ++i) sum += bytes[i];
    return sum * 8e12 / static_cast<double>((at.back() - at.front()).ps);
  }
  // The longest burst: what left in any stretch of time beyond the rate.
  double burst(double rate_limit) const {
    double level = 0, most = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      if (i != 0)
        level -= std::min(level, static_cast<double>((at[i] - at[i - 1]).ps) * rate_limit / 8e12);
      level += bytes[i];
      most = std::max(most, level);
    }
    return most;
  }
};

PairOptions rate_options(QpType type) {
  PairOptions o = options_with(Psn{0xFFFFF0}, kRateMtu, kRateMemory);
  o.qp_a.type = o.qp_b.type = type;
  o.connect.timeout = 14;  // 67 ms
  return o;
}

void limit(Endpoint& e, RateLimit to) {
  REQUIRE(e.station().engine().modify_qp(e.qp(), {.rate_limit = to}));
}

// a sends `bytes` to b in messages of 64 KiB, or datagrams of the MTU.
void send_all(Pair& p, uint32_t bytes) {
  const AddressHandle to(AddressVector{.destination = p.station_b.address()});
  const bool ud = p.a.qp().type == QpType::ud;
  const uint32_t piece = ud ? kRateMtu : 65536;
  for (uint32_t at = 0; at < bytes; at += piece) {
    const Sge sge = p.station_a.sge(at, piece);
    SendRequest r = p.request(ud ? Opcode::send : Opcode::write, at, {&sge, 1}, at);
    r.to = ud ? &to : nullptr;
    r.remote_qpn = p.b.qp().number;
    r.remote_qkey = p.b.qp().qkey;
    REQUIRE(p.a.send(r));
  }
}

TEST_CASE("a rate limit holds to 1 % on RC, UC and UD, in bursts of max_burst at most") {
  const QpType type = GENERATE(QpType::rc, QpType::uc, QpType::ud);
  const int64_t mbps = GENERATE(100, 1'000, 25'000);
  const uint32_t max_burst = GENERATE(0u, 200'000u);
  CAPTURE(type, mbps, max_burst);
  PairOptions o = rate_options(type);
  o.qp_a.max_send_wr = 1024;
  Pair p(o);
  const RateLimit wanted{.rate = {mbps * 1'000'000}, .max_burst = max_burst};
  limit(p.a, wanted);
  CHECK(p.a.qp().attributes.rate_limit->rate == wanted.rate);
  p.world.run_for(Duration::from_ms(50));  // a pause, after which a burst may leave
  Departures left;
  left.watch(p.world, p.station_a);
  send_all(p, 1u << 20);
  REQUIRE(p.world.run());
  REQUIRE(left.at.size() == (1u << 20) / kRateMtu);
  const auto bits = static_cast<double>(mbps) * 1e6;
  const double longest = kRateMtu + 48 + 86;
  const double burst = max_burst != 0 ? max_burst : bits * 10e-6 / 8 + longest;
  CHECK(left.burst(bits) <= burst + 1);
  CHECK(left.burst(bits) >= std::min(burst, 1e6) * 0.9 - longest);  // which is taken
  // Behind the first burst the rate holds.
  Departures behind;
  for (size_t i = 300; i < left.at.size(); ++i) {
    behind.at.push_back(left.at[i]);
    behind.bytes.push_back(left.bytes[i]);
  }
  CHECK(behind.rate() == Approx(bits).epsilon(0.01));
  CHECK(p.station_a.count(transport::Count::timeouts) == 0);
  CHECK(p.station_a.count(transport::Count::paced_waits) > 0);
  for (const Completion& c : p.a.sent()) CHECK(c.status == Status::success);
}

TEST_CASE("READ responses keep to the rate limit of the responder") {
  PairOptions o = rate_options(QpType::rc);
  Pair p(o);
  limit(p.b, {.rate = Rate::from_gbps(1)});
  Departures left;
  left.watch(p.world, p.station_b);
  const Sge sge = p.station_a.sge(0, 1u << 20);
  REQUIRE(p.a.send(p.request(Opcode::read, 1, {&sge, 1})));
  REQUIRE(p.world.run());
  CHECK(p.a.only_sent().status == Status::success);
  REQUIRE(left.at.size() == 1024);
  CHECK(left.rate() == Approx(1e9).epsilon(0.01));
  CHECK(left.burst(1e9) <= 1250 + kRateMtu + 48 + 86);
}

TEST_CASE("what is sent again is within the rate limit, go-back-N and selective repeat") {
  const bool selective = GENERATE(false, true);
  CAPTURE(selective);
  PairOptions o = rate_options(QpType::rc);
  o.connect.selective_repeat = selective;
  Pair p(o);
  fill(p.station_a.at(0), 1u << 20, 3);
  limit(p.a, {.rate = Rate::from_gbps(1)});
  Departures left;
  int count = 0;
  left.watch(p.world, p.station_a, [&count] { return ++count % 20 == 7; });
  send_all(p, 1u << 20);
  REQUIRE(p.world.run());
  for (const Completion& c : p.a.sent()) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), 1u << 20) == 0);
  CHECK(p.station_a.count(transport::Count::tx_retransmits) > 40);
  CHECK(left.burst(1e9) <= 1250 + kRateMtu + 48 + 86);
  if (selective) CHECK(left.rate() == Approx(1e9).epsilon(0.05));
}

TEST_CASE("congestion control and the rate limit hold both: the lower one is seen") {
  const int64_t gbps = GENERATE(1, 20);
  PairOptions o = rate_options(QpType::rc);
  const Result<congestion::Preset> made = congestion::make_preset(
      "none", {.line = Rate::from_gbps(5), .rtt = Duration::from_us(10), .network = {}});
  REQUIRE(made);
  o.station_a.engine.congestion = *made;
  o.station_a.engine.frame_overhead = 16 + 86;
  Pair p(o);
  limit(p.a, {.rate = Rate::from_gbps(gbps)});
  Departures left;
  left.watch(p.world, p.station_a);
  send_all(p, 1u << 20);
  REQUIRE(p.world.run());
  CHECK(left.rate() == Approx(static_cast<double>(std::min<int64_t>(gbps, 5)) * 1e9).epsilon(0.01));
}

TEST_CASE("a rate limit changes while packets wait, and 0 ends it") {
  const int64_t then = GENERATE(1'000'000'000, 0);
  Pair p(rate_options(QpType::rc));
  limit(p.a, {.rate = {100'000}, .max_burst = 1});  // 88 ms a packet
  Departures left;
  left.watch(p.world, p.station_a);
  send_all(p, 1u << 16);
  p.world.run_for(Duration::from_ms(10));
  CHECK(left.at.size() == 1);
  limit(p.a, {.rate = {then}});
  p.station_a.driver().kick();
  p.world.run_for(Duration::from_ms(1));
  CHECK(left.at.size() == 64);
  CHECK(p.a.qp().req.paced == (then != 0));
  limit(p.a, {.rate = {100'000}, .max_burst = 1});
  limit(p.a, {.rate = {50'000}, .max_burst = 1});  // a lower one: what waits waits no longer
  CHECK(p.a.qp().limiter.open(p.world.now()));
  REQUIRE(p.world.run());
}

TEST_CASE("the static rate of a path limits RC, and each datagram of UD, with the rate limit") {
  Pair p(rate_options(QpType::rc));
  roce::Engine& engine = p.station_a.engine();
  limit(p.a, {.rate = Rate::from_gbps(2)});
  REQUIRE(engine.modify_qp(p.a.qp(), {.state = QpState::sqd}));
  REQUIRE(engine.modify_qp(p.a.qp(), {.path = AddressVector{.destination = p.station_b.address(),
                                                            .static_rate = Rate::from_gbps(1)}}));
  REQUIRE(engine.modify_qp(p.a.qp(), {.state = QpState::rts}));
  Departures left;
  left.watch(p.world, p.station_a);
  send_all(p, 1u << 20);
  REQUIRE(p.world.run());
  CHECK(left.rate() == Approx(1e9).epsilon(0.01));

  PairOptions o = rate_options(QpType::ud);
  o.qp_a.max_send_wr = 1024;
  Pair u(o);
  limit(u.a, {.rate = Rate::from_gbps(4)});
  Departures sent;
  sent.watch(u.world, u.station_a);
  const AddressHandle slow(
      {.destination = u.station_b.address(), .static_rate = Rate::from_gbps(2)}),
      fast({.destination = u.station_b.address()});
  for (int i = 0; i < 600; ++i) {
    const Sge sge = u.station_a.sge(0, kRateMtu);
    SendRequest r;
    r.sges = {&sge, 1};
    r.to = i % 2 == 0 ? &slow : &fast;
    r.remote_qpn = u.b.qp().number;
    r.remote_qkey = u.b.qp().qkey;
    REQUIRE(u.a.send(r));
  }
  REQUIRE(u.world.run());
  CHECK(sent.rate() == Approx(2 * 1e9 * 4 / 3).epsilon(0.01));  // half at 2, half at 4 Gb/s
}

TEST_CASE(
    "an address vector changes in SQD: class, hop limit, source port, a drained queue pair "
    "goes to another destination, roce:C-STATE-64") {
  World world;
  Station& one = world.add_station();
  Station& two = world.add_station();
  Station& three = world.add_station();
  Endpoint a(one), b(two);
  world.cable(one, two);
  world.cable(one, three);
  world.connect(a, b);
  std::vector<transport::Path> paths;
  one.tap().filter = [&](const SentFrame& f) { return paths.push_back(f.path), true; };
  const auto write = [&] {
    const Sge sge = one.sge(0, 8);
    SendRequest r;
    r.opcode = Opcode::write;
    r.sges = {&sge, 1};
    r.remote_address = two.address_of(0);
    r.rkey = RKey{two.key()};
    REQUIRE(a.send(r));
  };
  write();
  while (paths.empty()) world.run_for(Duration::from_ns(10));
  REQUIRE(one.engine().modify_qp(a.qp(), {.state = QpState::sqd}));
  const AddressVector to_three{.destination = three.address(), .flow_label = 0x12345};
  const Result<void> early = one.engine().modify_qp(a.qp(), {.path = to_three});
  CHECK((!early && early.error().code == Code::busy));
  CHECK(a.qp().attributes.path->destination == two.address());
  REQUIRE(world.run());
  CHECK(a.only_sent().status == Status::success);
  paths.clear();
  write();
  REQUIRE(one.engine().modify_qp(a.qp(), {.path = AddressVector{.destination = two.address(),
                                                                .hop_limit = 9,
                                                                .traffic_class = 0x68,
                                                                .source_port = 1234}}));
  REQUIRE(world.run());
  CHECK(paths.empty());  // SQD
  REQUIRE(one.engine().modify_qp(a.qp(), {.state = QpState::rts}));
  one.driver().kick();
  REQUIRE(world.run());
  CHECK(a.only_sent().status == Status::success);
  REQUIRE(paths.size() == 1);
  CHECK(paths[0].traffic_class == 0x68);
  CHECK(paths[0].hop_limit == 9);
  CHECK(paths[0].source_port == 1234);
  REQUIRE(one.engine().modify_qp(a.qp(), {.state = QpState::sqd}));
  REQUIRE(one.engine().modify_qp(a.qp(), {.path = to_three}));
  paths.clear();
  write();
  REQUIRE(one.engine().modify_qp(a.qp(), {.state = QpState::rts}));
  one.driver().kick();
  world.run_for(Duration::from_us(100));
  REQUIRE(!paths.empty());
  CHECK(paths[0].destination == three.address());
  CHECK(paths[0].source_port == 0xE341);
  one.engine().check_invariants();
  REQUIRE(one.engine().modify_qp(a.qp(), {.state = QpState::reset}));
}

TEST_CASE("a rate outside of what can be counted is refused, the longest burst is taken") {
  Pair p(rate_options(QpType::rc));
  for (const int64_t rate : {int64_t{-1}, int64_t{1}, int64_t{999}, INT64_MAX}) {
    const Result<void> refused =
        p.station_a.engine().modify_qp(p.a.qp(), {.rate_limit = RateLimit{.rate = {rate}}});
    CHECK((!refused && refused.error().message.find("rate_limit") != std::string::npos));
  }
  CHECK_FALSE(p.a.qp().attributes.rate_limit.has_value());
  limit(p.a, {.rate = {1'000}, .max_burst = UINT32_MAX});
  Departures left;
  left.watch(p.world, p.station_a);
  p.world.run_for(Duration::from_s(900));
  send_all(p, 1u << 20);
  p.world.run_for(Duration::from_ms(10));
  CHECK(left.burst(1e3) <= 1e6 / 8);  // what the rate gives in 1,000 s
  CHECK(left.at.size() > 90);
}

}  // namespace
}  // namespace weft::test
