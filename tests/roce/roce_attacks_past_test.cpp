// SPDX-License-Identifier: BSD-3-Clause
// RC against replayed and forged packets: recorded packets that arrive again, at their sender, too,
// a packet delayed by 2^24 others, split acknowledgements, fatal NAKs and CNPs that the peer did
// not send. What a protocol without authentication cannot reject is asserted as it is;
// lib/roce/DEVIATIONS.md has the list.
#include <bit>
#include <cstdio>

#include "lib/congestion/registry.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/scale.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kPsns = 1u << 24;

// Both sides' frames, while fetch-and-adds, SENDs, WRITEs and READs go over the wrap.
struct Recorded : Pair {
  static constexpr uint64_t kAdds = 40;
  std::vector<SentFrame> of_a, of_b;
  uint64_t received = 0;

  Recorded() : Pair(options()) {
    station_a.tap().filter = [this](const SentFrame& f) { return of_a.push_back(f), true; };
    station_b.tap().filter = [this](const SentFrame& f) { return of_b.push_back(f), true; };
    const Sge eight = station_a.sge(0, 8), many = station_a.sge(64, 3000);
    for (uint64_t i = 0; i < kAdds; ++i) {
      REQUIRE(b.recv(i, {station_b.sge(16384, 4096)}));
      SendRequest add = request(Opcode::fetch_add, 4 * i, {&eight, 1});
      add.compare_add = 1;
      REQUIRE(a.send(add));
      REQUIRE(a.send(request(Opcode::send, 4 * i + 1, {&many, 1})));
      REQUIRE(a.send(request(Opcode::write, 4 * i + 2, {&many, 1}, 8192)));
      REQUIRE(a.send(request(Opcode::read, 4 * i + 3, {&many, 1}, 8192)));
    }
    REQUIRE(world.run());
    REQUIRE(a.sent().size() == 4 * kAdds);
    received = b.received().size();
    station_a.tap().filter = station_b.tap().filter = nullptr;
  }
  static PairOptions options() {
    PairOptions o = options_with(Psn{0xFFFFC0}, 1024, 1u << 16);
    o.qp_a.max_send_wr = o.qp_b.max_recv_wr = 256;
    return o;
  }
  uint64_t sum() const {
    uint64_t value = 0;
    std::memcpy(&value, station_b.at(0), sizeof value);
    return value;
  }
  void again(Station& to, const std::vector<SentFrame>& frames, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const SentFrame& f = frames[i % frames.size()];
      give(to.engine(), f.path, f.bytes, world.now());
      if (i % 16 == 0) {
        drain_transmit(to.engine(), world.now());
        world.run_for(Duration::from_us(1));
      }
    }
    drain_transmit(to.engine(), world.now());
  }
  void check() {
    CHECK(sum() == kAdds);
    CHECK(a.sent().empty());
    CHECK(b.received().empty());
    CHECK(a.qp().state == QpState::rts);
    CHECK(b.qp().state == QpState::rts);
  }
};

TEST_CASE("a million replays over the wrap change nothing, threat:A10") {
  Recorded t;
  REQUIRE(t.received == Recorded::kAdds);
  // A receive that a replayed SEND would take.
  REQUIRE(t.b.recv(999, {t.station_b.sge(16384, 4096)}));
  std::memset(t.station_b.at(8192), 0x77, 3000);
  t.again(t.station_b, t.of_a, scaled(500'000));
  t.again(t.station_a, t.of_b, scaled(500'000));
  t.check();
  CHECK(all_are(t.station_b.at(8192), 3000, std::byte{0x77}));
  CHECK(t.station_b.count(Count::rx_replayed_atomics) > 0);
}

TEST_CASE("packets of a destroyed connection do not match the next one, threat:A10 threat:A25") {
  Recorded t;
  t.station_a.engine().destroy_qp(&t.a.qp());
  t.station_b.engine().destroy_qp(&t.b.qp());
  Endpoint next_a(t.station_a), next_b(t.station_b);
  ConnectOptions o;
  o.psn_a = Psn{0xFFFFC0};  // the worst choice: the same PSNs again
  t.world.connect(next_a, next_b, o);
  REQUIRE(next_b.recv(999, {t.station_b.sge(16384, 4096)}));
  t.again(t.station_b, t.of_a, scaled(100'000));
  t.again(t.station_a, t.of_b, scaled(100'000));
  CHECK(t.sum() == Recorded::kAdds);
  CHECK(next_b.received().empty());
  CHECK(next_b.qp().res.expected.value == 0xFFFFC0);
  CHECK(t.station_b.count(Count::rx_unknown_qp) == scaled(100'000));
}

TEST_CASE("packets reflected to their sender have no effect, threat:A11") {
  Recorded t;
  // As they are, and turned to the queue pair that sent them.
  t.again(t.station_a, t.of_a, scaled(50'000));
  for (SentFrame& f : t.of_a) {
    const uint32_t to = t.a.qp().number.value;
    for (int i = 0; i < 3; ++i) f.bytes[5 + i] = static_cast<std::byte>(to >> (16 - 8 * i));
    sign(f.path, f.bytes);
  }
  const uint64_t before = t.station_a.count(Count::rx_bad_source);
  t.again(t.station_a, t.of_a, scaled(50'000));
  CHECK(t.station_a.count(Count::rx_bad_source) - before == scaled(50'000));
  t.check();
}

// 24 bits of PSN and no time on the wire: a packet counts as a duplicate for 2^23 PSNs, and 2^24
// later it is new. lib/roce/DEVIATIONS.md says how long that is. Under sanitizers only every
// 256th packet is given and the responder is told that the others have been there.
TEST_CASE(
    "a delayed packet is a duplicate for half of the PSN space, and new after all of it, "
    "threat:A26") {
  Pair p(options_with(Psn{0x10}, 256, 4096));
  const transport::Path path = path_of(p.a);
  Forgery f;
  f.bth = {.opcode = wire::kRcFetchAdd, .dest = p.b.qp().number, .psn = Psn{0x10}};
  f.address = p.station_b.address_of(0);
  f.rkey = RKey{p.station_b.key()};
  f.first = 1;
  const std::vector<std::byte> parked = forge(path, f);
  const auto sum = [&p] { return static_cast<int>(*p.station_b.at(0)); };
  give(p.station_b.engine(), path, parked, p.world.now());
  REQUIRE(sum() == 1);
  Forgery step;
  step.bth = {.opcode = wire::kRcWriteOnly, .dest = p.b.qp().number};
  std::vector<std::byte> frame = forge(path, step);
  constexpr uint32_t kStride = kSanitized ? 256 : 1;
  uint32_t looks = 0;
  for (uint32_t gone = std::max(2u, kStride); gone <= kPsns; gone += kStride) {
    const Psn last{(0x10 + gone - 1) % kPsns};
    if (kSanitized) p.b.qp().res.expected = last;
    set_psn(path, frame, last.value);
    give(p.station_b.engine(), path, frame, p.world.now());
    const bool behind = std::has_single_bit(gone) || gone == kPsns / 2 - 1;
    const bool ahead = gone == kPsns / 2 + 1 || gone == kPsns / 4 * 3;
    if ((!behind && !ahead) || gone == kPsns) continue;
    ++looks;
    const uint64_t before = p.station_b.count(Count::rx_duplicates);
    give(p.station_b.engine(), path, parked, p.world.now());
    drain_transmit(p.station_b.engine(), p.world.now());
    CHECK(sum() == 1);
    CHECK(p.station_b.count(Count::rx_duplicates) - before == (behind ? 1 : 0));
  }
  CHECK(looks == (kSanitized ? 17 : 26));  // powers of two from the stride on, and the edges
  REQUIRE(p.b.qp().res.expected == Psn{0x10});
  give(p.station_b.engine(), path, parked, p.world.now());
  CHECK(sum() == 2);
}

// Outside of the window: A07. Inside, W has nothing to tell the NAK of a forger by.
TEST_CASE("a fatal NAK in the window ends the queue pair and nothing else, threat:A08") {
  const uint8_t syndrome =
      GENERATE(wire::kNakInvalidRequest, wire::kNakRemoteAccess, wire::kNakRemoteOperation);
  Pair p;
  p.station_a.tap().filter = [](const SentFrame&) { return false; };
  const Sge sge = p.station_a.sge(0, 8), in = p.station_a.sge(64, 64);
  REQUIRE(p.a.send(p.request(Opcode::read, 1, {&in, 1})));
  REQUIRE(p.a.send(p.request(Opcode::write, 2, {&sge, 1})));
  p.world.run_for(Duration::from_us(10));
  Forgery f;
  f.bth = {.opcode = wire::kRcAcknowledge, .dest = p.a.qp().number};
  f.syndrome = syndrome;
  const transport::Path path = path_of(p.b);
  const auto inject_nak = [&](uint32_t ahead) {
    f.bth.psn = Psn{static_cast<uint32_t>(p.a.qp().req.una) & Psn::kMask} + ahead;
    give(p.station_a.engine(), path, forge(path, f), p.world.now());
  };
  for (const uint32_t outside : {2u, 3u, 1000u, 0x7FFFFFu, 0x800000u, 0xFFFFFFu})
    inject_nak(outside);
  CHECK(p.a.qp().state == QpState::rts);
  CHECK(p.a.sent().empty());
  inject_nak(0);
  CHECK(p.a.qp().state == QpState::err);
  const std::vector<Completion> sent = p.a.sent();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].status != Status::success);
  CHECK(sent[1].status == Status::flushed);
  CHECK(all_are(p.station_a.at(64), 64, std::byte{0}));
}

congestion::Preset preset(const char* name, int64_t gbps) {
  return *congestion::make_preset(
      name, {.line = Rate::from_gbps(gbps), .rtt = Duration::from_us(12), .network = {}});
}

// Virtual time in which 4 MiB leave, over a bottleneck whose receiver says each acknowledgement
// `times` times, of as many PSNs as there are.
Duration acknowledged(const char* name, uint32_t times) {
  PairOptions o = options_with(Psn{0xFFFFF0}, 1024, 4u << 20);
  o.station_a.capabilities.in_flight_limit = 1u << 18;
  if (*name != 0) o.station_a.engine.congestion = preset(name, 100);
  o.link = {.rate = Rate::from_gbps(10),
            .delay = Duration::from_us(2),
            .queue_bytes = 4u << 20,
            .drops = true,
            .mark_bytes = 100'000};
  // Without a controller the window is the limit: 10 Gb/s.
  if (*name == 0) o.link = {.rate = Rate::from_gbps(100), .delay = Duration::from_us(105)};
  o.connect.timeout = 14;
  Pair p(o);
  p.station_b.tap().filter = [&](const SentFrame& f) {
    if (f.opcode() != wire::kRcAcknowledge) return true;
    std::vector<std::byte> piece = f.bytes;
    for (uint32_t i = times; i-- != 0;) {  // whole ones too arrive at once
      set_psn(f.path, piece, (uint32_t{f.bth().psn} - i) & Psn::kMask);
      p.world.inject(p.station_a, f.path, piece);
    }
    return false;
  };
  Instant end;
  p.station_a.tap().filter = [&](const SentFrame&) { return end = p.world.now(), true; };
  const Sge sge = p.station_a.sge(0, 1u << 20);
  for (uint64_t i = 0; i < 4; ++i)
    REQUIRE(p.a.send(p.request(Opcode::write, i, {&sge, 1}, i << 20)));
  REQUIRE(p.world.run());
  REQUIRE(p.a.sent().size() == 4);
  return end - Instant{};
}

TEST_CASE("acknowledgements split in 64 open the window no more than whole ones, threat:A09") {
  const char* const name = GENERATE("", "dcqcn-paper", "swift", "timely+win");
  const auto whole = static_cast<double>(acknowledged(name, 1).ps);
  const auto pieces = static_cast<double>(acknowledged(name, 64).ps);
  std::printf("%s: rate with split acknowledgements %.3f\n", name, whole / pieces);
  CHECK(whole / pieces <= 1.05);
}

TEST_CASE(
    "a flood of CNPs: no effect from another address, never below min_rate from the peer, "
    "threat:A14") {
  const char* const name = GENERATE("dcqcn-paper", "dcqcn-nic", "dcqcn-hpccsim");
  const bool third_party = GENERATE(true, false);
  PairOptions o = options_with(Psn{0xFFFFF0}, 1024, 1u << 20);
  const congestion::Preset chosen = preset(name, 10);
  o.station_a.engine.congestion = chosen;
  o.connect.timeout = 18;
  Pair p(o);
  transport::Path path = path_of(p.b);
  if (third_party) path.source = sim::host_address(66);
  Forgery f;
  f.bth = {.opcode = wire::kCnp, .dest = p.a.qp().number, .becn = true};
  const std::vector<std::byte> cnp = forge(path, f);
  const Sge sge = p.station_a.sge(0, 65536);
  const auto work = [&] {
    for (const Completion& c : p.a.sent()) REQUIRE(c.status == Status::success);
    while (p.a.qp().sq.size() < 8) REQUIRE(p.a.send(p.request(Opcode::write, 0, {&sge, 1})));
  };
  const auto rate = [&] { return p.a.qp().req.pacer->rate(); };
  const double before = rate();
  double least = before;
  for (int i = 0; i < 5000; ++i) {  // 10^5 a second, 50 ms
    work();
    p.world.inject(p.station_a, path, cnp);
    p.world.run_for(Duration::from_us(10));
    least = std::min(least, rate());
  }
  const double floor = 1e6 * chosen[0];
  CHECK(least >= (third_party ? 0.95 * before : floor));
  CHECK((p.station_a.count(Count::rx_bad_source) == 5000) == third_party);
  for (int i = 0; i < 1000; ++i) {
    work();
    p.world.run_for(Duration::from_us(10));
  }
  std::printf("%s, %s: least %.4f of the rate, %.4f after 10 ms\n", name,
              third_party ? "third_party" : "peer", least / before, rate() / before);
  // The paper's machine, whose byte counter stands still at so low a rate, takes longer.
  const bool paper = chosen.kind->name == "dcqcn-paper";
  CHECK(rate() >= (!third_party && paper ? 0.6 : 0.95) * before);
  CHECK(p.a.qp().state == QpState::rts);
}

// What was posted has completed, or its completion had no room and was counted.
TEST_CASE("no completion is lost silently when a peer overruns a queue, threat:A18") {
  constexpr uint64_t kReceives = 64;
  PairOptions o;
  o.cq_capacity = 16;
  o.qp_b.max_recv_wr = kReceives;
  Pair p(o);
  for (uint64_t i = 0; i < kReceives; ++i) REQUIRE(p.b.recv(i, {p.station_b.sge(64 * i, 64)}));
  const Sge sge = p.station_a.sge(0, 8);
  for (uint64_t i = 0; i < 32; ++i) {
    SendRequest r = p.request(Opcode::send_with_imm, i, {&sge, 1});
    r.flags = i % 8 == 7 ? SendFlags::signaled : SendFlags::none;
    REQUIRE(p.a.send(r));
  }
  REQUIRE(p.world.run());
  const std::vector<Completion> got = p.b.received();
  CHECK(got.size() == 16);
  for (uint64_t i = 0; i < got.size(); ++i) CHECK(got[i].id == i);  // none overwritten
  CHECK(got.size() + p.station_b.count(Count::cq_overruns) == kReceives);
  CHECK(p.b.qp().state == QpState::err);
  uint32_t told = 0;
  for (AsyncEvent event; p.station_b.engine().next_event(event);)
    told += event.type == EventType::cq_error;
  CHECK(told == 1);
}

// A process that stands still for five seconds: its turns come late, and everything with them.
TEST_CASE("a stopped process continues, or fails each request once, threat:A27") {
  const bool patient = GENERATE(true, false);
  PairOptions o;
  o.connect.timeout = patient ? 18 : 14;  // 1 s or 67 ms, seven times
  Pair p(o);
  bool still = true;
  std::vector<SentFrame> kept;
  // b receives, and sends nothing.
  p.station_b.tap().filter = [&](const SentFrame&) { return !still; };
  p.station_a.tap().filter = [&](const SentFrame& f) {
    if (still && kept.size() < 1000) kept.push_back(f);  // the socket's buffer
    return !still;
  };
  const Sge eight = p.station_a.sge(0, 8);
  for (uint64_t i = 0; i < 10; ++i) {
    SendRequest add = p.request(Opcode::fetch_add, i, {&eight, 1});
    add.compare_add = 1;
    REQUIRE(p.a.send(add));
  }
  p.world.run_for(Duration::from_s(5));
  still = false;
  for (const SentFrame& f : kept) p.world.inject(p.station_b, f.path, f.bytes, f.ip_id);
  REQUIRE(p.world.run());
  const std::vector<Completion> sent = p.a.sent();
  REQUIRE(sent.size() == 10);
  uint64_t done = 0;
  for (const Completion& c : sent) done += c.status == Status::success;
  uint64_t sum = 0;
  std::memcpy(&sum, p.station_b.at(0), sizeof sum);
  CHECK(sum == 10);  // each once, however often it was asked for
  CHECK(done == (patient ? 10u : 0u));
  CHECK((p.a.qp().state == QpState::rts) == patient);
}

}  // namespace
}  // namespace weft::test
