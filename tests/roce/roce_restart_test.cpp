// SPDX-License-Identifier: BSD-3-Clause
// A host restarts, and its new queue pairs have the numbers of the old ones (and, the worst case,
// the same keys and addresses of memory). What the predecessors sent and the network kept until now
// must not be taken for new. RoCEv2 carries 24 bits of PSN and nothing else that tells the two
// lives apart, so what holds is: a packet is executed only if its PSN is less than the window of
// early packets (512) ahead of what is expected.
#include <algorithm>

#include "lib/base/random.hpp"
#include "lib/roce/state/early_packets.hpp"
#include "tests/support/catch.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kOld = 96;                    // messages of the predecessor
constexpr uint32_t kNew = 400;                   // and of its successor
constexpr Psn kOldPsn{0x200000};                 // of its first packet, in both directions
constexpr size_t kStale = 65536, kFresh = 4096;  // what they carry lies here, of a
constexpr size_t kTarget = 1u << 19;             // where WRITEs go, at b

PairOptions options(Psn psn) {
  PairOptions o;
  o.seed = 25;  // the same numbers, keys and addresses in each incarnation
  o.connect.psn_a = o.connect.psn_b = psn;
  o.qp_a.max_send_wr = o.qp_b.max_recv_wr = 1024;
  return o;
}

struct Parked {
  std::vector<SentFrame> to_b, to_a;
  QpNum number_a, number_b;
  uint32_t key = 0;
};

// One message of each kind, in this order: SEND, WRITE, READ, FETCH_ADD.
void post_old(Pair& p, uint64_t i) {
  const Opcode kinds[] = {Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add};
  const Opcode kind = kinds[i % 4];
  const Sge sge = kind == Opcode::fetch_add ? p.station_a.sge(8192, 8)
                  : kind == Opcode::read    ? p.station_a.sge(16384, 64)
                                            : p.station_a.sge(kStale, 64);
  SendRequest r = p.request(kind, i, {&sge, 1}, kTarget);
  r.compare_add = 1;
  REQUIRE(p.a.send(r));
  REQUIRE(p.b.recv(i, {p.station_b.sge(64 * (i % 512), 64)}));
}

// The first incarnation: the network keeps all of its frames.
Parked first_life() {
  Pair p(options(kOldPsn));
  Parked parked{{}, {}, p.a.qp().number, p.b.qp().number, p.station_b.key()};
  p.station_a.tap().filter = [&](const SentFrame& f) { return parked.to_b.push_back(f), true; };
  p.station_b.tap().filter = [&](const SentFrame& f) { return parked.to_a.push_back(f), true; };
  fill(p.station_a.at(kStale), 64, 666);
  for (uint64_t i = 0; i < kOld; ++i) post_old(p, i);
  REQUIRE(p.world.run());
  REQUIRE(p.a.sent().size() == kOld);
  REQUIRE(parked.to_b.size() >= kOld);
  REQUIRE(parked.to_a.size() > kOld / 2);
  return parked;
}

struct SecondLife : Pair {
  explicit SecondLife(const Parked& parked, Psn psn) : Pair(options(psn)), parked_(parked) {
    REQUIRE(a.qp().number == parked.number_a);
    REQUIRE(b.qp().number == parked.number_b);
    REQUIRE(station_b.key() == parked.key);
    fill(station_a.at(kFresh), 64, 1);
    REQUIRE(!std::equal(station_a.at(kFresh), station_a.at(kFresh + 64), station_a.at(kStale)));
  }
  // All that was parked arrives, both ways.
  void unpark() {
    for (const SentFrame& f : parked_.to_b) world.inject(station_b, f.path, f.bytes, f.ip_id);
    for (const SentFrame& f : parked_.to_a) world.inject(station_a, f.path, f.bytes, f.ip_id);
  }
  // SENDs, between which the old frames come again and again; then READs and an atomic of our own.
  void live(uint32_t count = kNew, bool again = true) {
    const Sge fresh = station_a.sge(kFresh, 64);
    for (uint64_t i = 0; i < count; ++i) REQUIRE(b.recv(i, {station_b.sge(64 * i, 64)}));
    unpark();  // before any frame of this incarnation
    world.run_for(Duration::from_us(20));
    for (uint64_t i = 0; i < count; ++i) {
      REQUIRE(a.send(request(Opcode::send, i, {&fresh, 1})));
      if (!again || i % 40 != 0) continue;
      world.run_for(Duration::from_us(3));
      unpark();
    }
    REQUIRE(world.run());
  }
  void check_nothing_stale(uint32_t count = kNew) {
    const std::vector<Completion> sent = a.sent(), received = b.received();
    REQUIRE(sent.size() == count);
    REQUIRE(received.size() == count);
    for (uint64_t i = 0; i < count; ++i) {
      CHECK(sent[i].id == i);
      CHECK(sent[i].status == Status::success);
      CHECK(received[i].id == i);
      CHECK(received[i].byte_count == 64);
      REQUIRE(std::equal(station_b.at(64 * i), station_b.at(64 * i + 64), station_a.at(kFresh)));
    }
    CHECK(all_are(station_b.at(kTarget), 64, std::byte{0}));  // no WRITE, no atomic
    CHECK(all_are(station_a.at(8192), 8, std::byte{0}));      // no answer of theirs
    CHECK(all_are(station_a.at(16384), 64, std::byte{0}));
  }

 private:
  const Parked& parked_;
};

// PSNs from the first to the last that the new incarnation can take for its own.
bool can_be_mistaken(Psn start) {
  const int32_t first = kOldPsn - (start + kNew + 2 * kOld), last = kOldPsn + 2 * kOld - start;
  return first < roce::kEarlyWindow && last >= 0;
}

TEST_CASE("packets to an earlier queue pair with the same number are never executed, threat:A25") {
  const Parked parked = first_life();
  // Right behind what they carry and right beyond the window before it, the far side, and anywhere.
  std::vector<Psn> starts = {kOldPsn + 2 * kOld,
                             kOldPsn + (Psn::kMask + 1 - kNew - roce::kEarlyWindow - 2 * kOld),
                             kOldPsn + 0x7FF000, kOldPsn + 0x800400, kOldPsn + 0xFF0000};
  base::Random random(2525);
  while (starts.size() < 40) {
    const Psn psn{static_cast<uint32_t>(random.next()) & Psn::kMask};
    if (!can_be_mistaken(psn)) starts.push_back(psn);
  }
  for (const Psn start : starts) {
    INFO("first PSN " << start.value);
    SecondLife life(parked, start);
    life.live();
    life.check_nothing_stale();
    CHECK(life.a.qp().state == QpState::rts);
    CHECK(life.b.qp().state == QpState::rts);
  }
}

// They come once, beyond the window; then what is new passes over their PSNs.
TEST_CASE("packets to an earlier queue pair beyond the window are not buffered, threat:A25") {
  const Parked parked = first_life();
  SecondLife life(parked, kOldPsn + (Psn::kMask + 1 - roce::kEarlyWindow - 1));
  constexpr uint32_t kPast = 800;
  life.live(kPast, false);
  life.check_nothing_stale(kPast);
}

// What the wire allows: the same first PSN (which connect() and the connection manager draw at
// random, and must not be fixed), the same number, the same source. New keys still keep memory
// safe.
TEST_CASE("packets to an earlier queue pair with expected PSNs fail at the new keys, threat:A25") {
  const Parked parked = first_life();
  REQUIRE(parked.to_b[0].info().operation == wire::Operation::send);
  REQUIRE(parked.to_b[1].info().operation == wire::Operation::write);
  SecondLife life(parked, kOldPsn);
  life.station_b.engine().keys().remove(parked.key);
  const uint32_t key = life.station_b.engine().keys().insert(
      life.station_b.at(0), life.station_b.memory_size(), Access::all, Station::kDomain);
  REQUIRE(key != parked.key);
  REQUIRE(life.b.recv(1, {Sge{life.station_b.at(0), 64, LKey{key}}}));
  for (size_t i : {size_t{0}, size_t{1}}) {
    const SentFrame& f = parked.to_b[i];
    life.world.inject(life.station_b, f.path, f.bytes, f.ip_id);
    life.world.run_for(Duration::from_us(10));
  }
  CHECK(life.b.only_received().status == Status::success);  // a SEND names no key
  CHECK(life.b.qp().state == QpState::err);                 // the WRITE names an old one
  CHECK(life.station_b.count(Count::access_errors) == 1);
  CHECK(all_are(life.station_b.at(kTarget), 64, std::byte{0}));
}

}  // namespace
}  // namespace weft::test
