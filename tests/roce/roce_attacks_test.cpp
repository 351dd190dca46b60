// SPDX-License-Identifier: BSD-3-Clause
// Attackers without a connection of their own: spoofed requests and spoofed answers over the whole
// PSN space, flipped bits, malformed frames. The frames go straight into the engine, so that a
// sweep over all 2^24 PSNs takes seconds. WEFT_TEST_SCALE shortens the sweeps.
#include <cstdio>
#include <cstdlib>

#include "lib/base/random.hpp"
#include "tests/support/scale.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kAllPsns = 1u << 24;

double scale() { return test_scale(); }
// A sweep visits every `stride`th PSN: 1 unless the tests are scaled down.
uint32_t stride() { return scale() >= 1 ? 1 : static_cast<uint32_t>(1 / scale()) | 1; }

// Station b is the victim, its memory filled; the attacker knows everything except the random
// values.
struct Attack : Pair {
  static constexpr size_t kMemory = 1u << 16;
  std::vector<std::byte> before;

  explicit Attack(PairOptions o = {}) : Pair(with_small_memory(o)) {
    fill(station_b.at(0), kMemory, 42);
    before.assign(station_b.at(0), station_b.at(kMemory));
    CHECK(b.recv(1, {station_b.sge(0, kMemory)}));
  }
  static PairOptions with_small_memory(PairOptions o) {
    o.station_a.memory = o.station_b.memory = kMemory;
    return o;
  }
  roce::Engine& victim() { return station_b.engine(); }
  bool untouched() const { return std::memcmp(station_b.at(0), before.data(), before.size()) == 0; }
  uint32_t expected() { return b.qp().res.expected.value; }
  // A request of `opcode` as the true peer would send it.
  std::vector<std::byte> request_frame(const transport::Path& path, uint8_t opcode, Psn psn,
                                       uint32_t size = 8) {
    static const std::vector<std::byte> zeros(4096);
    const wire::OpcodeInfo& info = wire::opcode_info(opcode);
    Forgery f;
    f.bth = {.opcode = opcode, .ack_request = true, .dest = b.qp().number, .psn = psn};
    f.address = station_b.address_of(0);
    f.rkey = RKey{station_b.key()};
    f.length = size;
    if (info.payload) f.payload = std::span(zeros).first(size);
    return forge(path, f);
  }
};

TEST_CASE("all PSNs from a wrong source change nothing, threat:A01 roce:C-AV-97") {
  Attack t;
  transport::Path path = path_of(t.a);
  path.source = sim::host_address(66);
  const uint8_t opcode =
      GENERATE(as<uint8_t>{}, wire::kRcSendOnly, wire::kRcWriteOnly, wire::kRcAcknowledge);
  std::vector<std::byte> frame = t.request_frame(path, opcode, Psn{});
  uint64_t sent = 0;
  for (uint32_t psn = 0; psn < kAllPsns; psn += stride(), ++sent) {
    set_psn(path, frame, psn);
    give(t.victim(), path, frame, t.world.now());
  }
  set_psn(path, frame, t.expected());
  give(t.victim(), path, frame, t.world.now());
  CHECK(t.station_b.count(Count::rx_bad_source) == sent + 1);
  CHECK(t.untouched());
  CHECK(t.b.received().empty());
  CHECK(t.b.qp().state == QpState::rts);
  CHECK(drain_transmit(t.victim(), t.world.now()) == 0);
}

// Damaged ones from ever new addresses, unknown opcodes, wrong sources and short ones, in turn.
TEST_CASE("a million bad packets are counted exactly and cause few reports, threat:A35") {
  Attack t;
  const auto all = static_cast<uint32_t>(1e6 * std::min(1.0, scale())) & ~3u;
  transport::Path path = path_of(t.a), wrong = path;
  wrong.source = sim::host_address(66);
  const std::vector<std::byte> good = t.request_frame(path, wire::kRcWriteOnly, Psn{});
  std::vector<std::byte> damaged = good, unknown = good;
  damaged.back() ^= std::byte{1};
  unknown[0] = std::byte{0x1F};
  sign(path, unknown);
  const std::vector<std::byte> foreign = t.request_frame(wrong, wire::kRcWriteOnly, Psn{});
  for (uint32_t i = 0; i < all / 4; ++i) {
    transport::Path elsewhere = path;
    elsewhere.source = Gid::from_ipv4(10, static_cast<uint8_t>(i >> 16),
                                      static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
    give(t.victim(), elsewhere, damaged, t.world.now());
    give(t.victim(), path, unknown, t.world.now());
    give(t.victim(), wrong, foreign, t.world.now());
    give(t.victim(), path, std::span(good).first(15), t.world.now());
  }
  CHECK(t.station_b.count(Count::rx_icrc_error) == all / 4);
  CHECK(t.station_b.count(Count::rx_bad_source) == all / 4);
  CHECK(t.station_b.count(Count::rx_bad_opcode) == all / 4);
  CHECK(t.station_b.count(Count::rx_too_short) == all / 4);
  uint32_t reports = 0;
  while (t.victim().next_failing_peer()) ++reports;
  CHECK(reports <= transport::IcrcWatch::kMaxReported);
  CHECK(t.untouched());
  CHECK(drain_transmit(t.victim(), t.world.now()) == 0);
}

TEST_CASE("a queue pair number is not reused early and does not reveal the next one, threat:A03") {
  World world(7);
  roce::Engine& engine = world.add_station({.memory = 4096}).engine();
  transport::CompletionQueue cq(16);
  const transport::QpConfig config{
      .send_cq = &cq, .recv_cq = &cq, .max_send_wr = 1, .max_recv_wr = 1, .max_inline = 0};
  std::vector<bool> seen(kAllPsns);
  const auto draws = static_cast<uint64_t>(1e6 * std::min(1.0, scale()));
  uint64_t again = 0, successors = 0;
  uint32_t last = 0;
  for (uint64_t i = 0; i < draws; ++i) {
    const Result<roce::QueuePair*> qp = engine.create_qp(config);
    REQUIRE(qp);
    const uint32_t number = (*qp)->number.value;
    again += seen[number];
    seen[number] = true;
    successors += number == last + 1;
    last = number;
    if (i % 64 != 0) engine.destroy_qp(*qp);  // some live on
  }
  CHECK(again == 0);
  CHECK(successors <= 1);
}

TEST_CASE("random PSNs from a spoofed source neither harm nor are amplified, threat:A02") {
  Attack t;
  const transport::Path path = path_of(t.a);
  base::Random random(2);
  const auto packets = static_cast<uint64_t>(1e7 * std::min(1.0, scale()));
  const uint8_t opcodes[] = {wire::kRcSendOnly, wire::kRcWriteOnly, wire::kRcReadRequest,
                             wire::kRcFetchAdd, wire::kRcSendMiddle};
  std::vector<std::vector<std::byte>> frames;
  for (const uint8_t opcode : opcodes)
    frames.push_back(
        t.request_frame(path, opcode, Psn{}, opcode == wire::kRcSendMiddle ? 1024 : 8));
  Instant now = t.world.now();
  uint64_t answers = 0;
  for (uint64_t i = 0; i < packets; ++i) {
    const auto psn = static_cast<uint32_t>(random.below(kAllPsns));
    if (psn == t.expected()) continue;  // one in 2^24: then it is a packet like any other
    std::vector<std::byte>& frame = frames[random.below(std::size(opcodes))];
    set_psn(path, frame, psn);
    give(t.victim(), path, frame, now);
    now = now + Duration::from_ns(637);  // 1.57 M packets/s
    answers += drain_transmit(t.victim(), now);
  }
  CHECK(t.untouched());
  CHECK(t.b.received().empty());
  CHECK(t.b.qp().state == QpState::rts);
  CHECK(t.expected() == t.a.qp().req.next % kAllPsns);
  // At most one answer in 4 us, far less than one per packet.
  CHECK(static_cast<double>(answers) <= static_cast<double>((now - t.world.now()).us()) / 4 + 1);
}

// Virtual time that a stream of WRITEs from a to b takes while a spoofed frame with a random PSN
// arrives at b every `flood_ns` (0: none).
Duration stream_under(uint32_t flood_ns) {
  PairOptions o;
  o.connect.timeout = 14;
  Attack t(o);
  const transport::Path path = path_of(t.a);
  std::vector<std::byte> frames[] = {t.request_frame(path, wire::kRcSendOnly, Psn{}),
                                     t.request_frame(path, wire::kRcWriteOnly, Psn{}),
                                     t.request_frame(path, wire::kRcReadRequest, Psn{})};
  base::Random random(3);
  const Sge sge = t.station_a.sge(0, Attack::kMemory);
  const auto requests = static_cast<uint64_t>(1000 * std::min(1.0, scale()));
  uint64_t posted = 0, done = 0;
  const Instant begin = t.world.now();
  while (done < requests) {
    for (; posted < requests && posted < done + 64; ++posted)
      REQUIRE(t.a.send(t.request(Opcode::write, posted, {&sge, 1})));
    if (flood_ns != 0) {
      const auto psn = static_cast<uint32_t>(random.below(kAllPsns));
      std::vector<std::byte>& frame = frames[random.below(std::size(frames))];
      set_psn(path, frame, psn);
      if (psn != t.expected()) t.world.inject(t.station_b, path, frame);
    }
    t.world.run_for(Duration::from_ns(flood_ns != 0 ? flood_ns : 1000));
    for (const Completion& c : t.a.sent()) {
      REQUIRE(c.status == Status::success);
      ++done;
    }
  }
  CHECK(t.b.qp().state == QpState::rts);
  return t.world.now() - begin;
}

TEST_CASE("a flood of random PSNs costs its victim less than a tenth of its goodput, threat:A02") {
  const double alone = static_cast<double>(stream_under(0).ns());
  const double flooded = static_cast<double>(stream_under(637).ns());
  std::printf("goodput under the flood: %.3f of what it is without\n", alone / flooded);
  CHECK(alone / flooded >= 0.9);
}

TEST_CASE("responses to PSNs that are not outstanding are dropped, threat:A07 roce:C-ACK-32") {
  struct Kind {
    uint8_t opcode, syndrome;
  };
  const Kind kind =
      GENERATE(Kind{wire::kRcAcknowledge, 0x1F}, Kind{wire::kRcAcknowledge, wire::kNakSequence},
               Kind{wire::kRcAcknowledge, wire::kNakRemoteAccess}, Kind{wire::kRcAcknowledge, 0x21},
               Kind{wire::kRcReadResponseOnly, 0x1F}, Kind{wire::kRcAtomicAcknowledge, 0x1F});
  PairOptions o;
  o.connect.psn_a = Psn{0xFFFFFE};  // the window lies over the wrap
  o.connect.timeout = 0;
  Pair p(o);
  p.station_a.tap().filter = [](const SentFrame&) { return false; };  // nothing reaches b
  const Sge sge = p.station_a.sge(0, 4000);
  CHECK(p.a.send(p.request(Opcode::write, 1, {&sge, 1})));
  REQUIRE(p.world.run());
  REQUIRE(p.a.qp().req.next - p.a.qp().req.una == 4);
  roce::Engine& victim = p.station_a.engine();
  const transport::Path path = path_of(p.b);
  static const std::byte eight[8] = {};
  Forgery f;
  f.bth = {.opcode = kind.opcode, .dest = p.a.qp().number};
  f.syndrome = kind.syndrome;
  if (kind.opcode == wire::kRcReadResponseOnly) f.payload = eight;
  std::vector<std::byte> frame = forge(path, f);
  // From the window on: half of the space lies ahead of it, half behind.
  uint64_t ahead = 0, behind = 0;
  for (uint32_t distance = 4; distance < kAllPsns; distance += stride()) {
    set_psn(path, frame, (0xFFFFFE + distance) % kAllPsns);
    give(victim, path, frame, p.world.now());
    ++(distance < kAllPsns / 2 ? ahead : behind);
  }
  CHECK(victim.counters()[Count::rx_ghost_ack] == ahead);
  CHECK(victim.counters()[Count::rx_duplicate_acks] == behind);
  CHECK(p.a.sent().empty());
  CHECK(p.a.qp().state == QpState::rts);
  CHECK(p.a.qp().req.next - p.a.qp().req.una == 4);
  CHECK(p.a.qp().req.retries_left == 7);
  CHECK(p.a.qp().sq.size() == 1);
}

TEST_CASE(
    "each flipped bit of a frame is detected, except masked ones, threat:A12 roce:C-ICRC-14 "
    "roce:C-ICRC-15") {
  const bool ipv4 = GENERATE(false, true);
  PairOptions o;
  if (ipv4) {
    o.station_a.address = Gid::from_ipv4(10, 0, 0, 1);
    o.station_b.address = Gid::from_ipv4(10, 0, 0, 2);
  }
  Attack t(o);
  const transport::Path path = path_of(t.a);
  const auto frames = static_cast<int>(std::max(1.0, 1000 * std::min(1.0, scale())));
  base::Random random(4);
  uint64_t masked = 0;
  for (int i = 0; i < frames; ++i) {
    const uint8_t opcodes[] = {wire::kRcWriteOnly, wire::kRcSendOnly, wire::kRcFetchAdd,
                               wire::kRcReadRequest, wire::kRcWriteOnlyImm};
    // In sequence: a frame that were taken for good would change memory, complete or be answered.
    std::vector<std::byte> frame = t.request_frame(path, opcodes[i % 5], Psn{t.expected()},
                                                   static_cast<uint32_t>(400 + random.below(625)));
    for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      if (bit / 8 == 4) {  // F, B and reserved: outside of the ICRC
        ++masked;
        continue;
      }
      frame[bit / 8] ^= std::byte{1} << (bit % 8);
      give(t.victim(), path, frame, t.world.now());
      frame[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
  CHECK(t.untouched());
  CHECK(t.b.received().empty());
  CHECK(t.victim().counters()[Count::rx_duplicates] == 0);
  CHECK(t.victim().counters()[Count::rx_out_of_sequence] == 0);
  CHECK(t.b.qp().state == QpState::rts);
  CHECK(drain_transmit(t.victim(), t.world.now()) == 0);
  CHECK(masked == 8 * static_cast<uint64_t>(frames));
  // The masked byte may be anything.
  std::vector<std::byte> frame = t.request_frame(path, wire::kRcWriteOnly, Psn{t.expected()});
  frame[4] = std::byte{0xC0};
  give(t.victim(), path, frame, t.world.now());
  CHECK(all_are(t.station_b.at(0), 8, std::byte{0}));
  CHECK_FALSE(t.untouched());
}

}  // namespace
}  // namespace weft::test
