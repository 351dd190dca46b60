// SPDX-License-Identifier: BSD-3-Clause
// Packets that a switch trimmed to their headers: each is retransmitted at once, if it is in flight
// under that path sequence number; forged ones have no effect.
#include "tests/srd/srd_star.hpp"
#include "tests/srd/srd_wiretap.hpp"

namespace weft::test {
namespace {

using transport::Count;
using wire::SrdOpcode;

constexpr uint32_t kBytes = 65536;

// 100 WRITEs of 64 KiB from station 0 to station 1, of whose packets the switch cuts `ppm`.
uint64_t write_through_trims(SrdStar& star, uint32_t ppm) {
  star.node->device().set_fault(1, {.trim_ppm = ppm});
  for (size_t i = 0; i < kBytes; ++i) *star[0].at(i) = static_cast<std::byte>(i * 7 + i / 251);
  constexpr uint64_t kMessages = 100;
  for (uint64_t id = 0; id < kMessages; ++id) {
    REQUIRE(star[0].write(star[1], kBytes, 0, id));
  }
  uint64_t done = 0;
  const bool all = star.run_until(
      [&] {
        for (const Completion& c : star[0].sent()) done += c.status == Status::success;
        return done == kMessages;
      },
      Duration::from_s(5));
  CHECK(all);
  CHECK(std::memcmp(star[0].at(0), star[1].at(0), kBytes) == 0);
  return done;
}

TEST_CASE("a trimmed packet is retransmitted at once") {
  for (const char* controller : {"nscc", "none"}) {
    INFO(controller);
    SrdStar star(controlled(controller));
    CHECK(write_through_trims(star, 50'000) == 100);
    const uint64_t cut = star.node->device().counters().trimmed;
    CHECK(cut > 20);
    CHECK(star[1].count(Count::rx_trimmed) == cut);
    CHECK(star[0].count(Count::trim_losses) == cut);
    // No other sign of loss was needed, and nothing came twice.
    CHECK(star[0].count(Count::tx_retransmits) == cut);
    CHECK(star[0].count(Count::path_losses) == 0);
    CHECK(star[0].count(Count::timeouts) == 0);
    CHECK(star[0].count(Count::spurious_retransmits) == 0);
  }
}

TEST_CASE("with half of all packets trimmed, everything arrives") {
  SrdStar star(controlled("nscc"));
  CHECK(write_through_trims(star, 500'000) == 100);
}

// Of what a sent: the header of a sequenced packet as a switch leaves it.
SentFrame cut(SentFrame frame, uint8_t dscp = wire::kTrimmedDscp) {
  frame.bytes.resize(std::min<size_t>(frame.bytes.size(), 64));
  frame.path.traffic_class = static_cast<uint8_t>(dscp << 2);
  return frame;
}

TEST_CASE("trimmed packets that were executed or are invalid are not answered, threat:A11") {
  SrdWiretap t;
  t.add(0);
  t.wait(1);
  const SentFrame add = t.recorded.at(0);
  uint64_t answers = 0;
  t.b.life().tap->filter = [&answers](const SentFrame& frame) {
    answers += frame.opcode() == static_cast<uint8_t>(SrdOpcode::trimmed);
    return true;
  };
  t.inject(t.b, cut(add));
  CHECK(t.b.count(Count::rx_trimmed) == 1);
  CHECK(answers == 0);
  const auto next = [](wire::SrdBase& base) { base.sequence = base.sequence + 1; };
  t.inject(t.b, cut(forged(add, next)));  // one that did not come
  CHECK(answers == 1);
  CHECK(t.b.word(64) == 1);
  SentFrame tiny = cut(forged(add, next));
  tiny.bytes.resize(sizeof(wire::SrdBase) - 1);
  t.inject(t.b, tiny);
  CHECK(t.b.count(Count::rx_too_short) == 1);
  t.inject(t.b, cut(forged(add, [](wire::SrdBase& base) { base.opcode = 16; })));
  CHECK(t.b.count(Count::rx_bad_opcode) == 1);
  t.inject(t.b, cut(forged(add, [&](wire::SrdBase& base) {
             next(base);
             base.incarnation = base.incarnation + 77;
           })));
  CHECK(t.b.count(Count::rx_other_incarnation) == 1);
  CHECK(answers == 1);
}

TEST_CASE(
    "who says that a packet was cut must know on which path, under which number, threat:A11") {
  SrdWiretap t;
  t.add(0);
  t.wait(1);
  t.a.life().tap->filter = [&t](const SentFrame& frame) {  // lost
    t.recorded.push_back(frame);
    return false;
  };
  t.recorded.clear();
  t.add(1);
  t.world.run_for(Duration::from_us(5));
  REQUIRE(t.recorded.size() == 1);
  const SentFrame sent = t.recorded[0];
  t.record();  // from now on nothing is lost
  // b's answer to that packet, cut.
  SentFrame answer;
  t.b.life().tap->filter = [&answer](const SentFrame& frame) {
    answer = frame;
    return false;
  };
  t.inject(t.b, cut(forged(sent, [](wire::SrdBase& base) { base.digest = 77; })));
  REQUIRE(answer.opcode() == static_cast<uint8_t>(SrdOpcode::trimmed));
  CHECK(reinterpret_cast<const wire::SrdBase*>(answer.bytes.data())->digest == 77);
  t.b.life().tap->filter = nullptr;
  const auto wrong = [&](const std::function<void(wire::SrdBase&)>& change) {
    t.inject(t.a, forged(answer, change), Duration::from_ns(100));
  };
  wrong([](wire::SrdBase& base) { base.path = static_cast<uint8_t>(base.path + 1); });
  wrong([](wire::SrdBase& base) { base.path_sequence = base.path_sequence + 1; });
  wrong([](wire::SrdBase& base) { base.sequence = base.sequence + 1; });
  wrong([](wire::SrdBase& base) { base.epoch = base.epoch + 1; });
  wrong([](wire::SrdBase& base) { base.incarnation = base.incarnation + 1; });
  CHECK(t.a.count(Count::trim_losses) == 0);
  t.inject(t.a, answer);
  t.inject(t.a, answer);
  CHECK(t.a.count(Count::trim_losses) == 1);
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 2);
  CHECK(t.a.count(Count::tx_retransmits) == 1);
  // Nor is a packet retransmitted that has arrived, though one before it has not.
  t.recorded.clear();
  bool blocked = true;
  t.a.life().tap->filter = [&](const SentFrame& frame) {
    t.recorded.push_back(frame);
    const auto sequence = [](const SentFrame& f) -> uint64_t {
      return reinterpret_cast<const wire::SrdBase*>(f.bytes.data())->sequence;
    };
    return !blocked || sequence(frame) != sequence(t.recorded[0]);
  };
  t.add(2);
  t.add(3);
  t.world.run_for(Duration::from_us(20));
  REQUIRE(t.recorded.size() >= 2);
  t.inject(t.a, forged(answer, [&t](wire::SrdBase& base) {
             const auto& second = *reinterpret_cast<wire::SrdBase*>(t.recorded[1].bytes.data());
             base.sequence = second.sequence;
             base.path = second.path;
             base.path_sequence = second.path_sequence;
           }));
  CHECK(t.a.count(Count::trim_losses) == 1);
  blocked = false;
  t.wait(2);
  CHECK(t.b.word(64) == 4);
}

}  // namespace
}  // namespace weft::test
