// SPDX-License-Identifier: BSD-3-Clause
// The pacer with a controller that only logs its inputs: departure times, bytes in flight, and the
// signal that each acknowledgement, echo, report, CNP or loss becomes.
#include <vector>

#include "lib/roce/state/pacer.hpp"
#include "tests/support/catch.hpp"

namespace weft::roce {
namespace {

struct RecordedAck {
  congestion::Ack ack;
  std::vector<congestion::IntHop> hops;
};
std::vector<RecordedAck> recorded;
std::vector<congestion::Loss::Reason> losses;
int cnps = 0, starts = 0, deadlines = 0;
bool timers = false;

constexpr double kLine = 8e9;  // a byte a nanosecond
constexpr congestion::Parameter kParameters[] = {{"min_rate_mbps", "Mb/s", 1, "test"}};

congestion::Kind probe(congestion::Signal signal) {
  congestion::Kind kind;
  kind.name = "probe";
  kind.signal = signal;
  kind.moves_pending = true;
  kind.parameters = kParameters;
  kind.start = [](congestion::State& s, const congestion::Preset&) {
    ++starts;
    if (timers) s.decision.deadline = Instant{} + Duration::from_us(100);
  };
  kind.on_ack = [](congestion::State& s, const congestion::Preset&, const congestion::Ack& a) {
    recorded.push_back({a, {a.hops.begin(), a.hops.end()}});
    if (a.retransmitted) return;
    s.decision.rate = kLine / 2;
  };
  kind.on_cnp = [](congestion::State& s, const congestion::Preset&, Instant) {
    ++cnps;
    s.decision.rate = kLine / 4;
  };
  kind.on_loss = [](congestion::State&, const congestion::Preset&, const congestion::Loss& l) {
    losses.push_back(l.reason);
  };
  kind.on_deadline = [](congestion::State& s, const congestion::Preset&, Instant now) {
    ++deadlines;
    s.decision.deadline = now + Duration::from_us(100);
  };
  return kind;
}

struct Bench {
  congestion::Kind kind;
  congestion::Preset preset;
  HostQueue own{kLine, 10'000};
  Pacer pacer;

  Bench(congestion::Signal signal, bool telemetry, Duration quantum = {}, bool windowed = false)
      : kind(probe(signal)),
        preset{.kind = &kind,
               .windowed = windowed,
               .line_rate = kLine,
               .min_rate = 1e6,
               .base_rtt_ns = 10'000,
               .window_bytes = 10'000,
               .values = {}},
        pacer(preset, own, quantum, {}, telemetry) {
    recorded.clear();
    losses.clear();
    cnps = starts = deadlines = 0;
  }
};

Instant at(int64_t ns) { return Instant{} + Duration::from_ns(ns); }
constexpr uint32_t kHeaders = 82;

wire::IntBlock echo(uint16_t marks, uint16_t path = 7) {
  wire::IntBlock block;
  block.flags = wire::kIntEcho;
  block.hops = 1;
  block.path = path;
  block.marks = marks;
  block.records[0] = {400'000, 0x123456789, 0xABCDEF012, 77};
  return block;
}

TEST_CASE("a packet leaves when its predecessor has been serialized at the rate") {
  const bool telemetry = GENERATE(false, true);
  Bench b(congestion::Signal::none, telemetry);
  const int64_t each = 1000 + kHeaders + (telemetry ? 108 : 0);
  REQUIRE(b.pacer.open(at(0)));
  CHECK(b.pacer.on_sent(at(0), 1, 1000, false).ps < 0);  // it did not wait
  CHECK_FALSE(b.pacer.open(at(each - 1)));
  CHECK(b.pacer.next_send_time(at(each - 1)) == at(each));
  REQUIRE(b.pacer.open(at(each)));
  CHECK(b.pacer.on_sent(at(each + 300), 2, 1000, false) == Duration::from_ns(300));
  // Without a quantum nothing is made up for.
  CHECK(b.pacer.next_send_time(at(each + 300)) == at(2 * each + 300));
}

TEST_CASE("a delayed flow catches up on one quantum, no more") {
  Bench b(congestion::Signal::none, false, Duration::from_ns(500));
  CHECK(b.pacer.on_sent(at(10'000), 1, 1000, false).ps < 0);
  CHECK(b.pacer.next_send_time(at(10'000)) == at(10'000 - 500 + 1082));
}

TEST_CASE("a new rate moves the packet that waits") {
  Bench b(congestion::Signal::ecn, false);
  b.pacer.on_sent(at(0), 1, 1000, false);
  b.pacer.on_cnp(at(82));  // 1000 ns before its time; from here on a quarter
  CHECK(cnps == 1);
  CHECK(b.pacer.next_send_time(at(82)) == at(82 + 4000));
  b.kind.moves_pending = false;
  Bench c(congestion::Signal::ecn, false);
  c.kind.moves_pending = false;
  c.pacer.on_sent(at(0), 1, 1000, false);
  c.pacer.on_cnp(at(82));
  CHECK(c.pacer.next_send_time(at(82)) == at(1082));
}

TEST_CASE("the window counts unacknowledged bytes, a rewind removes them") {
  Bench b(congestion::Signal::none, false, {}, true);
  int64_t now = 0;
  uint64_t psn = 0;
  for (; b.pacer.open(at(now)); now += 1082) b.pacer.on_sent(at(now), ++psn, 1000, false);
  CHECK(psn == 10);  // while less than 10,000 B are in flight
  CHECK(b.pacer.next_send_time(at(now)).is_never());
  b.pacer.on_rewind(4);
  CHECK(b.pacer.open(at(now)));
  for (; b.pacer.open(at(now)); now += 1082) b.pacer.on_sent(at(now), ++psn, 1000, true);
  CHECK(psn == 16);
}

TEST_CASE("an acknowledgement gives the RTT of the newest packet that it covers, once") {
  Bench b(congestion::Signal::delay, false);
  for (int i = 0; i < 4; ++i) b.pacer.on_sent(at(i * 2000), i + 1, 1000, i == 3);
  CHECK(b.pacer.on_acknowledged(at(9000), 3, 1024));
  REQUIRE(recorded.size() == 1);
  CHECK(recorded[0].ack.rtt == Duration::from_ns(5000));
  CHECK(recorded[0].ack.newly_acked == 3000);
  CHECK(recorded[0].ack.acked == 3000);
  CHECK(recorded[0].ack.sent == 4000);
  CHECK(recorded[0].ack.packet_bytes == 1024);
  CHECK_FALSE(recorded[0].ack.retransmitted);
  CHECK(recorded[0].hops.empty());
  b.pacer.on_acknowledged(at(9100), 3, 1024);
  CHECK(recorded.size() == 1);
  b.pacer.on_acknowledged(at(9200), 4, 1024);  // retransmitted: which copy arrived is ambiguous
  REQUIRE(recorded.size() == 2);
  CHECK(recorded[1].ack.rtt.ps == 0);
  CHECK(recorded[1].ack.retransmitted);
}

TEST_CASE("hops and new ECN marks of an echo are reported with the acknowledgement") {
  Bench b(congestion::Signal::telemetry, true);
  for (int i = 0; i < 5; ++i) b.pacer.on_sent(at(i * 2000), i + 1, 1000, false);
  b.pacer.on_echo(echo(65'535));  // more than half a round back: old
  CHECK(b.pacer.on_acknowledged(at(9000), 1, 1024));
  CHECK(recorded[0].ack.marked == 0);
  b.pacer.on_echo(echo(3));
  b.pacer.on_acknowledged(at(9000), 2, 1024);
  b.pacer.on_echo(echo(5));
  b.pacer.on_echo(echo(4));  // overtaken
  b.pacer.on_acknowledged(at(9000), 3, 1024);
  CHECK(recorded[1].ack.marked == 3);
  CHECK(recorded[2].ack.marked == 2);
  REQUIRE(recorded[2].hops.size() == 1);
  CHECK(recorded[2].ack.path == 7);
  CHECK(recorded[2].hops[0].rate_mbps == 400'000);
  CHECK(recorded[2].hops[0].time_ns == 0x23456789);
  CHECK(recorded[2].hops[0].sent_bytes == 0xBCDEF012);
  CHECK(recorded[2].hops[0].queue_bytes == 77);
  CHECK(b.pacer.on_acknowledged(at(9000), 4, 1024));  // by a READ response: no echo, not blind
  CHECK(recorded[3].hops.empty());
  // CNPs do not count a second time.
  b.pacer.on_cnp(at(9000));
  b.pacer.on_acknowledged(at(9000), 5, 1024);
  CHECK(recorded[4].ack.marked == 0);
}

TEST_CASE("without telemetry a CNP counts as an ECN mark") {
  Bench b(congestion::Signal::ecn, false);
  b.pacer.on_sent(at(0), 1, 1000, false);
  b.pacer.on_cnp(at(10));
  b.pacer.on_cnp(at(20));
  b.pacer.on_acknowledged(at(9000), 1, 1024);
  CHECK(recorded[0].ack.marked == 2);
}

TEST_CASE("without telemetry of switches the host queue is the only hop, on its own path") {
  const bool telemetry = GENERATE(false, true);
  Bench b(congestion::Signal::telemetry, telemetry);
  const uint32_t each = 1000 + kHeaders + (telemetry ? 108 : 0);
  b.pacer.on_sent(at(0), 1, 1000, false);
  Bench other(congestion::Signal::telemetry, telemetry);
  Pacer second(b.preset, b.own, {}, {}, telemetry);  // the same line
  second.on_sent(at(0), 1, 1000, false);
  b.pacer.on_sent(at(500), 2, 1000, false);
  wire::IntBlock nothing = echo(0);
  nothing.hops = 0;
  if (telemetry) b.pacer.on_echo(nothing);
  CHECK_FALSE(b.pacer.on_acknowledged(at(9000), 2, 1024));
  REQUIRE(recorded.size() == 1);
  REQUIRE(recorded[0].hops.size() == 1);
  CHECK(recorded[0].ack.path == 0xFFFF);
  CHECK(recorded[0].hops[0].rate_mbps == 8000);
  CHECK(recorded[0].hops[0].time_ns == 500);
  CHECK(recorded[0].hops[0].sent_bytes == 2 * each);
  CHECK(recorded[0].hops[0].queue_bytes == 2 * each - 500);
}

TEST_CASE("a digest of the path is forwarded, without one, that of the host queue") {
  Bench b(congestion::Signal::digest, true);
  for (int i = 0; i < 2; ++i) b.pacer.on_sent(at(0), i + 1, 1000, false);
  wire::IntBlock block = echo(0);
  block.digest = 99;
  b.pacer.on_echo(block);
  CHECK(b.pacer.on_acknowledged(at(9000), 1, 1024));
  CHECK(recorded[0].ack.digest == 99);
  block.digest = 0;  // hops that write records only
  b.pacer.on_echo(block);
  CHECK_FALSE(b.pacer.on_acknowledged(at(9000), 2, 1024));
  // The first packet, 1,190 B of a line that carries 10,000 B in T.
  CHECK(recorded[1].ack.digest == congestion::encode_digest(0.119, 0.5));
}

TEST_CASE("a loss is reported, and a deadline that expired in a pause is caught up") {
  timers = true;
  Bench b(congestion::Signal::none, false);
  timers = false;
  b.pacer.on_loss(at(5), congestion::Loss::Reason::timeout);
  REQUIRE(losses.size() == 1);
  CHECK(losses[0] == congestion::Loss::Reason::timeout);
  b.pacer.on_deadline(at(99'999));
  CHECK(deadlines == 0);
  b.pacer.on_restart(at(250'000));
  CHECK(deadlines == 2);
  CHECK(starts == 0);
}

TEST_CASE(
    "after a second without acknowledgement an idle flow restarts, one with packets in flight does "
    "not") {
  Bench b(congestion::Signal::none, false);
  b.pacer.on_sent(at(0), 1, 1000, false);
  b.pacer.on_acknowledged(at(9000), 1, 1024);
  CHECK(b.pacer.rate() == kLine / 2);
  b.pacer.on_sent(at(10'000), 2, 1000, false);
  b.pacer.on_restart(at(1'050'000'000));
  CHECK(starts == 0);
  b.pacer.on_acknowledged(at(1'060'000'000), 2, 1024);
  b.pacer.on_restart(at(2'060'000'000));
  CHECK(b.pacer.rate() == kLine / 2);
  b.pacer.on_restart(at(2'060'001'000));
  CHECK(b.pacer.rate() == kLine);
  CHECK(starts == 1);
}

TEST_CASE("READ responses share pacing and window with requests") {
  const bool telemetry = GENERATE(false, true);
  Bench b(congestion::Signal::delay, telemetry, {}, true);
  b.pacer.track_responses();
  int64_t now = 0;
  uint32_t psn = 0xFFFFFC;  // it wraps
  const int64_t each = 1000 + kHeaders + (telemetry ? 108 : 0);
  b.pacer.on_sent(at(0), 1, 1000, false);
  for (int i = 0; i < 9; ++i) {
    now += each;
    REQUIRE(b.pacer.open(at(now)));
    b.pacer.on_response_sent(at(now), Psn{++psn & Psn::kMask}, 1000);
  }
  CHECK_FALSE(b.pacer.open(at(now + each)));  // 10,000 B
  // Of these no acknowledgement comes: the oldest left at `each`, T is 10 us.
  const int64_t patience = telemetry ? 80'000 : 10'000;
  CHECK(b.pacer.next_send_time(at(now + each)) == at(each + patience));
  if (telemetry) {
    b.pacer.on_echo(echo(0));
    b.pacer.on_reported(at(now + each), Psn{2}, 1024);
    REQUIRE(recorded.size() == 1);
    CHECK(recorded[0].ack.newly_acked == 6000);
    CHECK(recorded[0].ack.sent == 10'000);
    CHECK(recorded[0].ack.rtt == Duration::from_ns(4 * each));
    CHECK(recorded[0].ack.path == 7);
    CHECK(b.pacer.open(at(now + each)));
  } else {
    b.pacer.expire_responses(at(each + patience), 1024);
    REQUIRE(recorded.size() == 1);
    CHECK(recorded[0].ack.newly_acked == 1000);
    CHECK(recorded[0].ack.rtt.ps == 0);  // assumed, not measured
  }
  b.pacer.expire_responses(at(9 * each + patience), 1024);
  b.pacer.on_acknowledged(at(9 * each + patience), 1, 1024);
  CHECK(recorded.back().ack.acked == 10'000);
}

TEST_CASE("a retransmitted response takes no more of the window") {
  Bench b(congestion::Signal::delay, true, {}, true);
  b.pacer.track_responses();
  int64_t now = 0;
  const auto respond = [&](uint32_t end) {
    b.pacer.on_response_sent(at(now += 1190), Psn{end}, 1000);
  };
  for (uint32_t end = 1; end <= 9; ++end) respond(end);
  for (uint32_t end = 4; end <= 9; ++end) respond(end);
  CHECK(b.pacer.open(at(now + 1190)));
  b.pacer.on_reported(at(now + 1190), Psn{9}, 1024);
  REQUIRE(recorded.size() == 1);
  CHECK(recorded[0].ack.acked == 9000);
  CHECK(recorded[0].ack.retransmitted);
}

}  // namespace
}  // namespace weft::roce
