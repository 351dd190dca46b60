// SPDX-License-Identifier: BSD-3-Clause
// One acknowledgement for several packets (Config::ack_every): a stream gets a quarter of them, at
// no cost to its rate, and none is delayed that matters: of the last packet that is queued, in a
// small window, of a mark, of a retransmission.
#include <algorithm>
#include <set>

#include "tests/srd/srd_lone.hpp"
#include "tests/srd/srd_star.hpp"

namespace weft::test {
namespace {

using transport::Count;

SrdOptions options(uint32_t every) {
  SrdOptions o = controlled("nscc");
  o.config.ack_every = every;
  o.config.paths = 8;
  o.memory = 1u << 20;
  return o;
}

// `count` WRITEs of `bytes` from station 0 to station 1, one after the other or all at once; how
// long they took.
Duration write(SrdStar& star, uint32_t count, uint32_t bytes, bool at_once = true) {
  const Instant begin = star.network.now();
  uint32_t done = 0, posted = 0;
  for (; posted < count; ++posted) {
    REQUIRE(star[0].write(star[1], bytes));
    if (at_once && posted + 1 != count) continue;
    REQUIRE(star.run_until(
        [&] {
          for (const Completion& c : star[0].sent()) {
            REQUIRE(c.status == Status::success);
            ++done;
          }
          return done == posted + 1;
        },
        Duration::from_s(2)));
  }
  return star.network.now() - begin;
}

TEST_CASE("with ack_every=4 a stream has one ACK per four packets and the same rate") {
  SrdStar often(options(1)), seldom(options(4));
  const Duration usual = write(often, 8, 1u << 20);
  const Duration took = write(seldom, 8, 1u << 20);
  const uint64_t packets = seldom[1].count(Count::rx_packets);
  CHECK(packets >= 8 * 256);
  CHECK(often[1].count(Count::tx_acks) > packets * 9 / 10);
  CHECK(seldom[1].count(Count::tx_acks) < packets * 3 / 10);
  CHECK(took.ps < usual.ps * 102 / 100);
  CHECK(seldom[0].count(Count::timeouts) == 0);
  CHECK(seldom[0].count(Count::tx_retransmits) == 0);
}

TEST_CASE("a single message is acknowledged at once, whatever ack_every is") {
  for (const uint32_t bytes : {8u, 20'000u}) {
    SrdStar often(options(1)), seldom(options(16));
    const Duration usual = write(often, 50, bytes, false);
    CHECK(write(seldom, 50, bytes, false).ps <= usual.ps + usual.ps / 100);
  }
}

TEST_CASE("an ACK that was not requested waits for ack_delay only") {
  SrdOptions o = options(64);
  SrdStar star(o);
  // The end of each message is lost, so that what came before it waits for company.
  uint32_t lost = 0;
  star[0].life().tap->filter = [&lost](const SentFrame& frame) {
    const auto& base = *reinterpret_cast<const wire::SrdBase*>(frame.bytes.data());
    const bool lose =
        (base.flags & wire::srd_flag::kAckRequest) != 0 && base.sequence > 100 && lost < 20;
    lost += lose;
    return !lose;
  };
  const Duration took = write(star, 100, 20'000, false);
  CHECK(lost == 20);
  CHECK(star[0].count(Count::timeouts) <= 20);
  CHECK(star[1].count(Count::rx_duplicates) == 0);  // what came before the end was acknowledged
  CHECK(took < Duration::from_ms(20));
}

// Four packets of an engine that has 64 paths and no network.
std::vector<wire::SrdPacket> send_four(SrdLone& lone, const AddressHandle& to) {
  const Sge sge{&lone.word, 8, LKey{lone.key}};
  for (int i = 0; i < 4; ++i) {
    const SendRequest r{.opcode = Opcode::write,
                        .sges = {&sge, 1},
                        .remote_address = 4096,
                        .rkey = RKey{1},
                        .to = &to,
                        .remote_qpn = QpNum{1 << 16 | 1}};
    REQUIRE(lone.engine.post_send(*lone.qp, {&r, 1}, lone.now));
  }
  lone.now = lone.now + Duration::from_us(5);
  transport::TxFrame frames[16];
  REQUIRE(lone.engine.transmit(frames, lone.now) == 4);
  std::vector<wire::SrdPacket> packets(4);
  for (size_t i = 0; i < 4; ++i)
    REQUIRE(wire::srd_parse(frames[i].head, frames[i].head_length, 0, frames[i].payload_length,
                            packets[i]) == wire::SrdError::none);
  return packets;
}

TEST_CASE("paths of packets acknowledged without a mark are reused") {
  struct Case {
    bool echo_marked;
    uint16_t marks;
    size_t again;  // of the four paths, by the next four packets
  };
  const Case c = GENERATE(Case{false, 0, 4}, Case{true, 1, 3}, Case{false, 1, 1}, Case{true, 2, 0});
  INFO(c.echo_marked << " " << c.marks);
  srd::Config config;
  config.paths = 64;
  config.policy = srd::PathChoice::mixed;
  SrdLone lone(16, config);
  const AddressHandle to(AddressVector{.destination = Gid::from_ipv4(10, 0, 0, 2)});
  lone.welcome(to.path().destination, 1, 4711);
  const std::vector<wire::SrdPacket> first = send_four(lone, to);
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::acknowledge;
  p.path = first[3].path;
  p.path_sequence = first[3].path_sequence;
  p.epoch = first[3].epoch;
  p.incarnation = 4711;
  p.sequence = first[3].sequence + 1;
  p.dest = QpNum{first[3].source.value & 0xFF0000};
  p.source = QpNum{1 << 16};
  wire::SrdAck ack;
  ack.echo = static_cast<uint32_t>(first[3].sequence);
  ack.flags = c.echo_marked ? 1 : 0;
  ack.marks = c.marks;
  lone.give(to.path().destination, p, &ack, sizeof ack);
  std::set<uint8_t> paths;
  for (const wire::SrdPacket& packet : first) paths.insert(packet.path);
  REQUIRE(paths.size() == 4);
  const std::vector<wire::SrdPacket> then = send_four(lone, to);
  CHECK(static_cast<size_t>(std::count_if(then.begin(), then.end(), [&](const auto& packet) {
          return paths.count(packet.path) != 0;
        })) == c.again);
}

TEST_CASE("losses are detected as soon, with few acknowledgements") {
  for (const uint32_t every : {1u, 4u, 16u}) {
    INFO(every);
    SrdStar star(options(every));
    star.node->device().set_fault(1, {.loss_ppm = 10'000});
    const Duration took = write(star, 20, 1u << 20);
    CHECK(star[0].count(Count::tx_retransmits) > 20);
    CHECK(double{20} * (1u << 20) * 8 / took.ns() > 85);  // Gb/s of 100
  }
}

}  // namespace
}  // namespace weft::test
