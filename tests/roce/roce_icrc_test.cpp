// SPDX-License-Identifier: BSD-3-Clause
// Without an ICRC: devices that leave it out (icrc=off), and paths that change what
// it covers, which a device tells of once.
#include "tests/support/catch.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

PairOptions signing(bool a, bool b) {
  PairOptions o;
  o.station_a.engine.icrc = a;
  o.station_b.engine.icrc = b;
  return o;
}

void post(Pair& p) {
  fill(p.station_a.at(0), 9001, 4);
  const Sge sge = p.station_a.sge(0, 9001), back = p.station_a.sge(16384, 4001);
  REQUIRE(p.b.recv(1, {p.station_b.sge(32768, 9001)}));
  REQUIRE(p.a.send(p.request(Opcode::send, 1, {&sge, 1})));
  REQUIRE(p.a.send(p.request(Opcode::write, 2, {&sge, 1}, 65536)));
  REQUIRE(p.a.send(p.request(Opcode::read, 3, {&back, 1}, 65536)));
  REQUIRE(p.world.run());
}

TEST_CASE("with icrc=off on both sides the ICRC field is zero, and nothing else changes") {
  Pair p(signing(false, false));
  size_t frames = 0, wrong = 0;
  for (Station* s : {&p.station_a, &p.station_b})
    s->tap().filter = [&](const SentFrame& f) {
      ++frames;
      const size_t pad = f.bth().pad();
      wrong += all_are(f.bytes.data() + f.bytes.size() - 4, 4, std::byte{0}) ? 0 : 1;
      wrong += f.bytes.size() % 4 == 0 && pad < 4 ? 0 : 1;  // pad and trailer keep their places
      return true;
    };
  post(p);
  for (const Completion& c : p.a.sent()) CHECK(c.status == Status::success);
  CHECK(p.b.only_received().byte_count == 9001);
  CHECK(std::memcmp(p.station_b.at(32768), p.station_a.at(0), 9001) == 0);
  CHECK(std::memcmp(p.station_b.at(65536), p.station_a.at(0), 9001) == 0);
  CHECK(std::memcmp(p.station_a.at(16384), p.station_a.at(0), 4001) == 0);
  CHECK(frames > 20);
  CHECK(wrong == 0);
  for (const Station* s : {&p.station_a, &p.station_b}) CHECK(s->count(Count::rx_icrc_error) == 0);
}

TEST_CASE("a peer with an ICRC and one without drop and count each other's packets") {
  const bool a_signs = GENERATE(true, false);
  Pair p(signing(a_signs, !a_signs));
  post(p);
  const std::vector<Completion> all = p.a.sent();
  REQUIRE(all.size() == 3);
  CHECK(all[0].status == Status::retry_exceeded);
  CHECK(p.b.received().empty());
  CHECK(all_are(p.station_b.at(32768), 9001, std::byte{0}));
  CHECK(p.station_b.count(Count::rx_icrc_error) == p.station_b.count(Count::rx_packets));
  CHECK(p.station_b.count(Count::rx_icrc_error) >= 32);
  CHECK(p.station_b.count(Count::peers_failing_icrc) == 1);
  // And in the other direction.
  const uint64_t before = p.station_a.count(Count::rx_icrc_error);
  Forgery f;
  f.bth = {.opcode = wire::kRcAcknowledge, .dest = p.a.qp().number, .psn = Psn{0x123456}};
  transport::Path path{.source = p.station_b.address(), .destination = p.station_a.address()};
  std::vector<std::byte> ack = forge(path, f);
  if (a_signs) std::fill(ack.end() - 4, ack.end(), std::byte{0});
  give(p.station_a.engine(), path, ack, p.world.now());
  CHECK(p.station_a.count(Count::rx_icrc_error) == before + 1);
}

// `n` frames of `source` whose ICRC is right or wrong.
void receive(Pair& p, const Gid& source, uint32_t n, bool right) {
  Forgery f;
  f.bth = {.opcode = wire::kRcAcknowledge, .dest = QpNum{p.b.qp().number.value ^ 1}, .psn = Psn{1}};
  const transport::Path path{.source = source, .destination = p.station_b.address()};
  std::vector<std::byte> frame = forge(path, f);
  if (!right) frame.back() ^= std::byte{1};
  for (uint32_t i = 0; i < n; ++i) give(p.station_b.engine(), path, frame, p.world.now());
}

Gid other_address(uint32_t i) {
  return Gid::from_ipv4(10, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
}

TEST_CASE("a peer all of whose packets fail the ICRC is reported once") {
  Pair p;
  roce::Engine& engine = p.station_b.engine();
  const auto told = [&] { return p.station_b.count(Count::peers_failing_icrc); };
  for (int i = 0; i < 10; ++i) {  // occasional damage: valid packets in between
    receive(p, other_address(1), transport::IcrcWatch::kFailuresInARow - 1, false);
    receive(p, other_address(1), 1, true);
  }
  CHECK(told() == 0);
  CHECK_FALSE(engine.next_failing_peer());
  (void)engine.take_events();
  receive(p, other_address(1), transport::IcrcWatch::kFailuresInARow - 1, false);
  receive(p, other_address(2), 3, true);  // from another address
  CHECK(told() == 0);
  CHECK_FALSE(engine.take_events());
  receive(p, other_address(1), 1, false);
  CHECK(told() == 1);
  CHECK(engine.take_events());
  CHECK(engine.next_failing_peer() == other_address(1));
  CHECK_FALSE(engine.next_failing_peer());
  receive(p, other_address(1), 1000, false);
  receive(p, other_address(1), 1, true);
  receive(p, other_address(1), 1000, false);
  CHECK(told() == 1);
  receive(p, other_address(2), 1000, false);
  CHECK(told() == 2);
  CHECK(engine.next_failing_peer() == other_address(2));
}

TEST_CASE("forged sources cause few reports, and delay those of others briefly") {
  Pair p;
  roce::Engine& engine = p.station_b.engine();
  for (uint32_t i = 0; i < 1000; ++i) receive(p, other_address(i), 2, false);
  CHECK(p.station_b.count(Count::peers_failing_icrc) == 0);
  receive(p, other_address(5000), 40, false);  // the table is full of others
  CHECK(engine.next_failing_peer() == other_address(5000));
  for (uint32_t i = 0; i < 1000; ++i) receive(p, other_address(i), 40, false);
  uint32_t said = 1;
  while (engine.next_failing_peer()) ++said;
  CHECK(said == transport::IcrcWatch::kMaxReported);
  CHECK(p.station_b.count(Count::peers_failing_icrc) == said);
}

}  // namespace
}  // namespace weft::test
