// SPDX-License-Identifier: BSD-3-Clause
// Each profile as requester of each as responder, both ways at once, with loss, late packets and
// receives that come late: data and completions are right, and no packet counts as a bad one.
#include "lib/roce/profiles.hpp"
#include "providers/port/middleware/fault_port.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kBytes = 24'000, kTimes = 12;  // 24 packets of 1024

// Counters of traffic, of losses and of what repairs them. All others mean that a packet was bad,
// or that a peer did what it must not.
bool is_harmless(std::string_view name) {
  constexpr std::string_view kHarmless[] = {
      "tx_packets",
      "tx_bytes",
      "rx_packets",
      "rx_bytes",
      "tx_acks",
      "rx_acks",
      "tx_naks",
      "rx_naks",
      "tx_rnr_naks",
      "rx_rnr_naks",
      "tx_retransmits",
      "tx_rewinds",
      "timeouts",
      "tail_probes",
      "rx_duplicates",
      "rx_duplicate_acks",
      "rx_early",
      "rx_after_nak",
      "rx_out_of_sequence",
      "tx_read_responses",
      "rx_lost_resource",
      "rx_replayed_reads",
      "rx_replayed_atomics",
      "tx_cnps",
      "rx_cnps",
      "rx_ecn_marked",
  };
  return std::find(std::begin(kHarmless), std::end(kHarmless), name) != std::end(kHarmless);
}

void check_no_bad_packet(const Station& station) {
  for (size_t i = 0; i < transport::kCountEnd; ++i) {
    INFO(transport::kCountNames[i]);
    if (!is_harmless(transport::kCountNames[i])) CHECK(station.count(static_cast<Count>(i)) == 0);
  }
}

// What one end does: SENDs, WRITEs, READs and atomics in turn, to halves of the other's memory.
struct Work {
  Endpoint& end;
  Station& to;
  uint64_t word;  // offset of the word that atomics add to

  void post() {
    Station& from = end.station();
    for (uint64_t i = 0; i < kTimes; ++i) {
      const Opcode opcode =
          std::array{Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add}[i % 4];
      const bool atomic = opcode == Opcode::fetch_add;
      const size_t ours = place(i), theirs = (opcode == Opcode::read ? kRead : kTarget) + place(i);
      const Sge sge = from.sge((opcode == Opcode::read ? kResult : 0) + ours, atomic ? 8 : kBytes);
      SendRequest r;
      r.id = i;
      r.opcode = opcode;
      r.sges = {&sge, 1};
      r.remote_address = to.address_of(atomic ? word : theirs);
      r.rkey = RKey{to.key()};
      r.compare_add = 1;
      REQUIRE(end.send(r));
    }
  }
  void receive() {
    for (uint64_t i = 0; i < kTimes; i += 4)
      REQUIRE(end.recv(i, {end.station().sge(kTarget + place(i), kBytes)}));
  }
  void check() {
    const std::vector<Completion> sent = end.sent();
    REQUIRE(sent.size() == kTimes);
    for (uint64_t i = 0; i < kTimes; ++i) {
      CHECK(sent[i].id == i);
      CHECK(sent[i].status == Status::success);
      const Station& from = end.station();
      const bool read = i % 4 == 2;
      if (i % 4 == 3) continue;
      CHECK(std::memcmp(read ? from.at(kResult + place(i)) : from.at(place(i)),
                        to.at((read ? kRead : kTarget) + place(i)), kBytes) == 0);
    }
    uint64_t sum = 0;
    std::memcpy(&sum, to.at(word), sizeof sum);
    CHECK(sum == kTimes / 4);
  }
  void check_received() {
    const std::vector<Completion> received = end.received();
    REQUIRE(received.size() == kTimes / 4);
    for (const Completion& c : received) {
      CHECK(c.status == Status::success);
      CHECK(c.byte_count == kBytes);
    }
  }

  static constexpr size_t kPart = 512 * 1024, kTarget = kPart, kRead = 2 * kPart,
                          kResult = 3 * kPart, kWord = 4 * kPart;
  static constexpr size_t place(uint64_t i) { return i * 32'768; }
};

void meet(const roce::Profile& of_a, const roce::Profile& of_b, uint64_t seed) {
  PairOptions o = options_with(Psn{0xFFFFF0}, 1024, Work::kWord + 4096);
  o.seed = seed;
  o.link = {.rate = Rate::from_gbps(10), .delay = Duration::from_us(2)};
  o.connect.timeout = 12;  // 17 ms
  o.connect.max_rd_atomic = o.connect.max_dest_rd_atomic = 4;
  o.connect.selective_repeat = roce::repeats_selectively(of_a) && roce::repeats_selectively(of_b);
  roce::apply(of_a, o.station_a.engine);
  roce::apply(of_b, o.station_b.engine);
  World* world = nullptr;
  o.station_a.wrap = [&](std::unique_ptr<transport::Port> inner) {
    const middleware::FaultOptions faults{.loss = 10'000,
                                          .dup = 10'000,
                                          .reorder = 10'000,
                                          .ecn = 10'000,
                                          .reorder_time = Duration::from_us(50),
                                          .seed = seed};
    return std::make_unique<middleware::FaultPort>(std::move(inner), faults,
                                                   [&world] { return world->now(); });
  };
  Pair p(o);
  world = &p.world;
  fill(p.station_a.at(0), Work::kWord, 3);
  fill(p.station_b.at(0), Work::kWord, 4);
  Work from_a{p.a, p.station_b, Work::kWord}, from_b{p.b, p.station_a, Work::kWord};
  from_a.post();
  from_b.post();
  p.world.run_for(Duration::from_us(200));  // the first SENDs find no receive
  from_a.receive();
  from_b.receive();
  REQUIRE(p.world.run());
  from_a.check();
  from_b.check();
  from_a.check_received();
  from_b.check_received();
  check_no_bad_packet(p.station_a);
  check_no_bad_packet(p.station_b);
  p.station_a.engine().check_invariants();
  p.station_b.engine().check_invariants();
}

TEST_CASE("each profile with each: data is right and no packet is a bad one") {
  for (const roce::Profile& a : roce::profiles()) {
    for (const roce::Profile& b : roce::profiles()) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        INFO(a.name << " with " << b.name << ", seed " << seed);
        meet(a, b, seed);
      }
    }
  }
}

}  // namespace
}  // namespace weft::test
