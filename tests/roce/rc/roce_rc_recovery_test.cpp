// SPDX-License-Identifier: BSD-3-Clause
// The requester when responses are lost, late, duplicated or NAKs: what it sends again, what it
// believes, and when it gives up. Losses are exact: a filter at a port drops the frame that the
// case is about.
#include <map>

#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

bool is_request(const SentFrame& f) { return !f.info().response(); }
bool plain_ack(const SentFrame& f) {
  return f.opcode() == wire::kRcAcknowledge &&
         (f.aeth().syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}

struct Recovery : Pair {
  std::vector<SentFrame> requests;  // of a, dropped ones too
  std::vector<Instant> times;

  explicit Recovery(const PairOptions& o = {}) : Pair(o) { fill(station_a.at(0), 1u << 18, 1); }
  // Drops the requests of a for which `lost` holds; the argument is the number of earlier ones.
  void lose(std::function<bool(const SentFrame&, size_t)> lost) {
    station_a.tap().filter = [this, lost = std::move(lost)](const SentFrame& f) {
      if (!is_request(f)) return true;
      const bool drop = lost(f, requests.size());
      requests.push_back(f);
      times.push_back(world.now());
      return !drop;
    };
  }
  void post(Opcode opcode, uint64_t id, uint32_t length, size_t remote = 0) {
    const Sge sge = station_a.sge(0, length);
    REQUIRE(a.send(request(opcode, id, {&sge, 1}, remote)));
  }
  uint64_t count(Count c) const { return station_a.count(c); }
};

TEST_CASE(
    "after a NAK the same packets are sent again, bit by bit, roce:C-RETRY-50 roce:C-NAK-37") {
  Recovery r(options_with(start_psn()));
  r.lose([](const SentFrame&, size_t n) { return n == 3; });
  r.post(Opcode::write, 1, 8000);
  uint8_t fewest = 7;
  r.station_a.driver().after_turn(
      [&](Instant) { fewest = std::min(fewest, r.a.qp().req.retries_left); });
  REQUIRE(r.world.run());
  CHECK(r.a.only_sent().status == Status::success);
  CHECK(std::memcmp(r.station_a.at(0), r.station_b.at(0), 8000) == 0);
  CHECK(r.count(Count::rx_naks) == 1);
  CHECK(r.count(Count::timeouts) == 0);
  CHECK(fewest == 6);                     // one event, one retry
  CHECK(r.a.qp().req.retries_left == 7);  // all back after progress
  REQUIRE(r.requests.size() == 8 + 5);
  for (size_t i = 8; i < r.requests.size(); ++i) {
    const SentFrame& first = r.requests[i - 5];
    CHECK(static_cast<uint32_t>(r.requests[i].bth().psn) == first.bth().psn);
    // The A bit may be set; everything else is the same.
    std::vector<std::byte> again = r.requests[i].bytes, before = first.bytes;
    again[8] &= std::byte{0x7F}, before[8] &= std::byte{0x7F};
    again.resize(again.size() - 4), before.resize(before.size() - 4);
    CHECK(again == before);
  }
}

TEST_CASE("a READ continues at its first missing packet, roce:C-RETRY-51") {
  Recovery r(options_with(start_psn()));
  fill(r.station_b.at(4096), 8000, 2);
  size_t responses = 0;
  r.station_b.tap().filter = [&](const SentFrame&) { return responses++ != 2; };
  r.lose([](const SentFrame&, size_t) { return false; });
  r.post(Opcode::read, 1, 8000, 4096);
  REQUIRE(r.world.run());
  CHECK(r.a.only_sent().status == Status::success);
  CHECK(std::memcmp(r.station_a.at(0), r.station_b.at(4096), 8000) == 0);
  REQUIRE(r.requests.size() == 2);
  const Psn first{r.requests[0].bth().psn};
  CHECK(r.requests[1].bth().psn == (first + 2).value);
  CHECK(r.requests[1].reth().address == r.station_b.address_of(4096 + 2048));
  CHECK(r.requests[1].reth().length == 8000 - 2048);
}

TEST_CASE("an ACK beyond a READ without response repeats the READ, roce:C-ACK-31") {
  Recovery r(options_with(start_psn()));
  fill(r.station_b.at(4096), 1000, 2);
  bool lost = false;
  r.station_b.tap().filter = [&lost](const SentFrame& f) {
    if (f.info().operation != wire::Operation::read_response || lost) return true;
    lost = true;
    return false;
  };
  r.lose([](const SentFrame&, size_t) { return false; });
  r.post(Opcode::write, 1, 1000);
  r.post(Opcode::read, 2, 1000, 4096);
  r.post(Opcode::write, 3, 1000, 8192);
  REQUIRE(r.world.run());
  const std::vector<Completion> all = r.a.sent();
  REQUIRE(all.size() == 3);
  for (uint64_t i = 0; i < 3; ++i) {
    CHECK(all[i].id == i + 1);
    CHECK(all[i].status == Status::success);
  }
  CHECK(r.count(Count::timeouts) == 0);
  CHECK(std::memcmp(r.station_a.at(0), r.station_b.at(4096), 1000) == 0);
}

TEST_CASE("a READ response acknowledges the WRITEs before it, roce:C-ACK-35") {
  Recovery r(options_with(start_psn()));
  r.station_b.tap().filter = [](const SentFrame& f) { return !plain_ack(f); };
  for (uint64_t i = 1; i <= 5; ++i) r.post(i < 5 ? Opcode::write : Opcode::read, i, 500);
  REQUIRE(r.world.run());
  CHECK(r.a.sent().size() == 5);
  CHECK(r.count(Count::timeouts) == 0);
}

TEST_CASE("a duplicate ACK has no effect, roce:C-DUP-29") {
  Recovery r(options_with(start_psn()));
  std::vector<SentFrame> answers;
  r.station_b.tap().filter = [&answers](const SentFrame& f) {
    answers.push_back(f);
    return true;
  };
  for (uint64_t i = 1; i <= 8; ++i) r.post(Opcode::write, i, 500);
  REQUIRE(r.world.run());
  REQUIRE(r.a.sent().size() == 8);
  r.station_b.tap().filter = [](const SentFrame&) { return false; };
  r.post(Opcode::write, 9, 500);
  r.world.run_for(Duration::from_us(10));
  const roce::Requester& req = r.a.qp().req;
  const uint64_t una = req.una, in_flight = req.in_flight;
  const uint64_t window = r.a.qp().destination->window.size;
  const uint64_t before = r.count(Count::rx_duplicate_acks);
  for (int i = 0; i < 10; ++i)
    for (const SentFrame& f : answers) give(r.station_a.engine(), f.path, f.bytes, r.world.now());
  CHECK(r.count(Count::rx_duplicate_acks) == before + 10 * answers.size());
  CHECK(req.una == una);
  CHECK(req.in_flight == in_flight);
  CHECK(req.next == una + 1);  // nothing was sent again for them
  CHECK(r.a.qp().destination->window.size == window);
  CHECK(r.a.sent().empty());
}

TEST_CASE("a NAK acknowledges the PSNs before it, roce:C-NAK-44 roce:C-STATE-62") {
  Recovery r(options_with(start_psn()));
  r.station_b.tap().filter = [](const SentFrame& f) { return !plain_ack(f); };
  r.post(Opcode::write, 1, 3000);
  r.post(Opcode::write, 2, 100);
  const Sge sge = r.station_a.sge(0, 8);
  SendRequest bad = r.request(Opcode::write, 3, {&sge, 1});
  bad.rkey = RKey{bad.rkey.value ^ 1};
  REQUIRE(r.a.send(bad));
  r.post(Opcode::write, 4, 100);
  REQUIRE(r.world.run());
  const std::vector<Completion> all = r.a.sent();
  REQUIRE(all.size() == 4);
  const Status expected[] = {Status::success, Status::success, Status::remote_access_error,
                             Status::flushed};
  for (size_t i = 0; i < 4; ++i) CHECK(all[i].status == expected[i]);
  CHECK(r.count(Count::timeouts) == 0);
}

TEST_CASE("a NAK with an unknown code is fatal, roce:C-NAK-41") {
  const uint8_t syndrome = GENERATE(as<uint8_t>{}, wire::kNakInvalidRd, 0x65, 0x7F);
  Recovery r;
  r.lose([](const SentFrame&, size_t) { return true; });
  r.post(Opcode::write, 1, 8);
  r.world.run_for(Duration::from_us(10));
  Forgery f;
  f.bth = {.opcode = wire::kRcAcknowledge,
           .dest = r.a.qp().number,
           .psn = Psn{static_cast<uint32_t>(r.a.qp().req.una) & Psn::kMask}};
  f.syndrome = syndrome;
  const transport::Path path = path_of(r.b);
  give(r.station_a.engine(), path, forge(path, f), r.world.now());
  CHECK(r.a.only_sent().status == Status::bad_response);
  CHECK(r.a.qp().state == QpState::err);
}

TEST_CASE("each new acknowledgement restores the retries, roce:C-RETRY-49") {
  PairOptions o = options_with(start_psn());
  o.connect.retry_count = 2;
  Recovery r(o);
  // Every PSN is lost twice: too often for a request whose retries were not restored.
  std::map<uint32_t, int> seen;
  r.lose([&seen](const SentFrame& f, size_t) { return ++seen[f.bth().psn] <= 2; });
  for (uint64_t i = 1; i <= 4; ++i) {
    r.post(Opcode::write, i, 8);
    REQUIRE(r.world.run());
    CHECK(r.a.only_sent().status == Status::success);
  }
  CHECK(r.count(Count::timeouts) == 8);
}

TEST_CASE(
    "retransmission timeouts are in time, n retries and no more, roce:C-RETRY-46 roce:C-RETRY-47") {
  const auto timeout = static_cast<uint8_t>(GENERATE(range(1, 32)));
  const uint8_t retries = timeout % 8;
  PairOptions o;
  o.connect.timeout = timeout;
  o.connect.retry_count = retries;
  Recovery r(o);
  r.lose([](const SentFrame&, size_t) { return true; });
  r.post(Opcode::write, 1, 8);
  REQUIRE(r.world.run());
  CHECK(r.a.only_sent().status == Status::retry_exceeded);
  REQUIRE(r.requests.size() == 1u + retries);
  const int64_t least = int64_t{4'096'000} << timeout;
  r.times.push_back(r.world.now());
  for (size_t i = 0; i + 1 < r.times.size(); ++i) {
    const int64_t waited = (r.times[i + 1] - r.times[i]).ps;
    CHECK(waited >= least);
    CHECK(waited <= 4 * least);
  }
}

TEST_CASE("no timer runs when nothing is outstanding, roce:C-RETRY-52") {
  Recovery r;
  CHECK(r.a.qp().req.retry_at.is_never());
  r.post(Opcode::write, 1, 5000);
  r.world.run_for(Duration::from_ns(500));
  CHECK_FALSE(r.a.qp().req.retry_at.is_never());
  REQUIRE(r.world.run());
  CHECK(r.a.only_sent().status == Status::success);
  CHECK(r.a.qp().req.retry_at.is_never());
  CHECK(r.count(Count::timeouts) == 0);
  CHECK(r.station_a.engine().next_deadline().is_never());
}

TEST_CASE("a timeout during an RNR wait sends nothing, roce:C-RETRY-53 roce:C-NAK-42") {
  PairOptions o;
  o.connect.timeout = 4;         // 65 us
  o.connect.min_rnr_timer = 14;  // 1.28 ms
  Recovery r(o);
  r.lose([](const SentFrame&, size_t) { return false; });
  r.post(Opcode::send, 1, 8);
  r.world.run_for(Duration::from_us(1200));
  CHECK(r.requests.size() == 1);
  REQUIRE(r.b.recv(1, {r.station_b.sge(0, 64)}));
  REQUIRE(r.world.run());
  CHECK(r.a.only_sent().status == Status::success);
  REQUIRE(r.requests.size() == 2);
  CHECK((r.times[1] - r.times[0]).us() >= 1280);
  CHECK(r.count(Count::timeouts) == 0);
}

TEST_CASE("without credit one SEND goes as a probe, roce:C-ACK-34") {
  Recovery r;
  r.lose([](const SentFrame&, size_t) { return false; });
  REQUIRE(r.b.recv(1, {r.station_b.sge(0, 64)}));
  r.post(Opcode::send, 1, 8);
  REQUIRE(r.world.run());  // the ACK carries 0 credits
  REQUIRE(r.requests.size() == 1);
  for (uint64_t i = 2; i <= 5; ++i) r.post(Opcode::send, i, 8);
  r.world.run_for(Duration::from_us(1));
  CHECK(r.requests.size() == 2);
  for (uint64_t i = 2; i <= 5; ++i) REQUIRE(r.b.recv(i, {r.station_b.sge(64 * i, 64)}));
  REQUIRE(r.world.run());
  CHECK(r.a.sent().size() == 5);
  CHECK(r.b.received().size() == 5);
}

TEST_CASE("the counters agree with a count of the frames, roce:C-EVT-110") {
  PairOptions o;
  o.connect.min_rnr_timer = 1;
  Recovery r(o);
  // What left each side, and what of that reached the other, by kind.
  struct Seen {
    uint64_t packets = 0, bytes = 0, acks = 0, naks = 0, rnr_naks = 0, responses = 0;
    void add(const SentFrame& f) {
      ++packets;
      bytes += f.bytes.size();
      responses += f.info().operation == wire::Operation::read_response;
      if (f.opcode() != wire::kRcAcknowledge) return;
      const uint8_t kind = f.aeth().syndrome & wire::kSyndromeKindMask;
      ++(kind == wire::kSyndromeAck ? acks : kind == wire::kSyndromeRnr ? rnr_naks : naks);
    }
  };
  Seen left[2], came[2];
  uint64_t n = 0;
  Station* const stations[] = {&r.station_a, &r.station_b};
  for (int side = 0; side < 2; ++side)
    stations[side]->tap().filter = [&, side](const SentFrame& f) {
      left[side].add(f);
      if (++n % 11 == 0) return false;
      came[1 - side].add(f);
      return true;
    };
  for (uint64_t i = 1; i <= 60; ++i) {
    const Opcode opcodes[] = {Opcode::write, Opcode::read, Opcode::send};
    r.post(opcodes[i % 3], i, static_cast<uint32_t>(i * 100));
    if (i % 3 == 2 && i > 30) REQUIRE(r.b.recv(i, {r.station_b.sge(0, 8192)}));
  }
  r.world.run_for(Duration::from_ms(20));
  for (uint64_t i = 61; i <= 70; ++i) REQUIRE(r.b.recv(i, {r.station_b.sge(0, 8192)}));
  REQUIRE(r.world.run());
  REQUIRE(r.a.sent().size() == 60);
  for (int side = 0; side < 2; ++side) {
    const Station& s = *stations[side];
    CHECK(s.count(Count::tx_packets) == left[side].packets);
    CHECK(s.count(Count::tx_bytes) == left[side].bytes);
    CHECK(s.count(Count::tx_acks) == left[side].acks);
    CHECK(s.count(Count::tx_naks) == left[side].naks);
    CHECK(s.count(Count::tx_rnr_naks) == left[side].rnr_naks);
    CHECK(s.count(Count::tx_read_responses) == left[side].responses);
    CHECK(s.count(Count::rx_packets) == came[side].packets);
    CHECK(s.count(Count::rx_bytes) == came[side].bytes);
  }
  CHECK(left[1].naks > 0);
  CHECK(left[1].rnr_naks > 0);
  CHECK(r.count(Count::tx_retransmits) > 0);
}

TEST_CASE("one acknowledgement covers many requests, and is not late, roce:C-ACK-36") {
  Recovery r;
  r.lose([](const SentFrame&, size_t) { return false; });
  std::vector<Instant> acks;
  r.station_b.tap().filter = [&](const SentFrame&) {
    acks.push_back(r.world.now());
    return true;
  };
  for (uint64_t i = 1; i <= 128; ++i) r.post(Opcode::write, i, 8);
  REQUIRE(r.world.run());
  CHECK(r.a.sent().size() == 128);
  CHECK(acks.size() <= 64);
  REQUIRE_FALSE(acks.empty());
  // The wire takes about a microsecond; the acknowledgement waits for turns, not for a timer.
  CHECK((acks.back() - r.times.back()).us() <= 10);
}

}  // namespace
}  // namespace weft::test
