// SPDX-License-Identifier: BSD-3-Clause
// Unreliable connections: messages of any length arrive in order or not at all, nothing is ever
// answered, and what is dropped is counted. Losses are exact: a filter drops the frame that the
// case is about. The last case draws them.
#include "tests/support/scale.hpp"
#include "tests/virtual_time/dialogue.hpp"

namespace weft::test {
namespace {

using transport::Count;

PairOptions make_uc_options(Psn psn = Psn{0xFFFFFE}, uint32_t mtu = 1024) {
  PairOptions o = options_with(psn, mtu);
  o.qp_a.type = o.qp_b.type = QpType::uc;
  return o;
}

struct UcPair : Pair {
  size_t sent_frames = 0;

  explicit UcPair(const PairOptions& o = make_uc_options()) : Pair(o) {
    fill(station_a.at(0), 1u << 18, 5);
    station_b.tap().filter = [](const SentFrame&) {
      FAIL("UC answers nothing");
      return false;
    };
  }
  void lose(std::vector<size_t> frames) {
    station_a.tap().filter = [this, frames = std::move(frames)](const SentFrame&) {
      return std::find(frames.begin(), frames.end(), sent_frames++) == frames.end();
    };
  }
  void post(Opcode opcode, uint64_t id, uint32_t length, size_t remote = 0, uint32_t imm = 0) {
    const Sge sge = station_a.sge(0, length);
    SendRequest r = request(opcode, id, {&sge, 1}, remote);
    r.imm = imm;
    REQUIRE(a.send(r));
  }
  void expect(uint64_t id, uint32_t length, size_t offset = 0) {
    REQUIRE(b.recv(id, {station_b.sge(offset, length)}));
  }
  bool arrived(size_t length, size_t offset = 0) {
    return std::memcmp(station_a.at(0), station_b.at(offset), length) == 0;
  }
  uint64_t dropped(Count c) const { return station_b.count(c); }
};

TEST_CASE("UC: SEND and WRITE of every shape, with and without immediate data") {
  const uint32_t mtu = GENERATE(256u, 1024u, 4096u);
  UcPair t(make_uc_options(start_psn(), mtu));
  uint64_t id = 0;
  for (const uint32_t size : {0u, 1u, mtu - 1, mtu, mtu + 1, 3 * mtu, 7 * mtu + 13, 100'000u}) {
    INFO(size);
    std::memset(t.station_b.at(0), 0, 2 * 131072);
    t.expect(++id, 131072);
    t.post(Opcode::send, id, size);
    t.expect(++id, 131072, 131072);
    t.post(Opcode::send_with_imm, id, size, 0, 77);
    REQUIRE(t.world.run());
    const std::vector<Completion> sends = t.b.received();
    REQUIRE(sends.size() == 2);
    CHECK(sends[0].type == WorkType::recv);
    CHECK(sends[1].type == WorkType::recv_with_imm);
    CHECK(sends[1].imm_or_key == 77);
    for (const Completion& c : sends) CHECK(c.byte_count == size);
    CHECK(t.arrived(size));
    CHECK(t.arrived(size, 131072));
    std::memset(t.station_b.at(0), 0, 131072);
    t.post(Opcode::write, id, size);
    REQUIRE(t.world.run());
    CHECK(t.arrived(size));
    CHECK(t.b.received().empty());
    t.expect(++id, 0);
    t.post(Opcode::write_with_imm, id, size, 131072, 78);
    REQUIRE(t.world.run());
    const Completion write = t.b.only_received();
    CHECK(write.byte_count == size);
    CHECK(has(write.flags, CompletionFlags::rdma_write | CompletionFlags::with_imm));
    const std::vector<Completion> done = t.a.sent();
    REQUIRE(done.size() == 4);
    for (const Completion& c : done) CHECK(c.status == Status::success);
  }
  check_quiet(t.station_a);
  check_quiet(t.station_b);
}

TEST_CASE("UC: a lost packet drops its message, the next one arrives, roce:C-PSN-20") {
  const size_t lost = GENERATE(size_t{0}, size_t{1}, size_t{3});  // of four packets
  UcPair t;
  t.lose({lost});
  t.expect(1, 65536);
  t.post(Opcode::send, 1, 4000);
  t.post(Opcode::send, 2, 3000);
  REQUIRE(t.world.run());
  CHECK(t.a.sent().size() == 2);  // for the sender all went well
  const Completion got = t.b.only_received();
  CHECK(got.id == 1);  // the receive was still there
  CHECK(got.byte_count == 3000);
  CHECK(t.arrived(3000));
  CHECK(t.dropped(Count::rx_out_of_sequence) == 1);
  CHECK(t.dropped(Count::rx_message_lost) == (lost == 0 ? 0 : 1));
  CHECK(t.dropped(Count::rx_message_rest) == (lost == 0 ? 3 : lost == 1 ? 2 : 0));
}

TEST_CASE("UC: a WRITE with immediate data whose end is lost leaves its receive") {
  UcPair t;
  t.lose({2});
  t.expect(1, 0);
  t.post(Opcode::write_with_imm, 1, 3000, 0, 5);
  t.post(Opcode::write_with_imm, 2, 2000, 8192, 6);
  REQUIRE(t.world.run());
  const Completion got = t.b.only_received();
  CHECK(got.imm_or_key == 6);
  CHECK(got.byte_count == 2000);
  CHECK(t.arrived(2048, 0));  // what came of the first is in place
  CHECK(t.arrived(2000, 8192));
}

TEST_CASE("UC: undeliverable packets are dropped and counted, the connection continues") {
  UcPair t;
  t.post(Opcode::send, 1, 3000);  // no receive
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::rx_no_receive) == 1);
  CHECK(t.dropped(Count::rx_message_rest) == 2);
  t.expect(1, 1500);
  t.post(Opcode::send, 2, 3000);  // too long for it
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::rx_too_long) == 1);
  const Sge sge = t.station_a.sge(0, 100);
  SendRequest unknown_key = t.request(Opcode::write, 3, {&sge, 1});
  unknown_key.rkey.value ^= 1;
  REQUIRE(t.a.send(unknown_key));
  SendRequest outside = t.request(Opcode::write, 4, {&sge, 1}, t.station_b.memory_size() - 99);
  REQUIRE(t.a.send(outside));
  REQUIRE(t.world.run());
  CHECK(t.dropped(Count::access_errors) == 2);
  CHECK(t.b.qp().state == QpState::rts);
  t.post(Opcode::send, 5, 1500);
  REQUIRE(t.world.run());
  CHECK(t.b.only_received().byte_count == 1500);
  CHECK(t.a.sent().size() == 5);
}

TEST_CASE("UC has no READ, no atomics, no invalidate") {
  UcPair t;
  const Sge sge = t.station_a.sge(0, 8);
  for (const Opcode opcode : {Opcode::read, Opcode::compare_swap, Opcode::fetch_add,
                              Opcode::send_with_invalidate, Opcode::write_add})
    CHECK(t.a.send(t.request(opcode, 1, {&sge, 1})).code == Code::invalid_argument);
}

TEST_CASE("UC: a local error stops the send queue, roce:C-STATE-65") {
  UcPair t;
  // The second half of the message has a wrong key: its first packets have left.
  Sge parts[] = {t.station_a.sge(0, 2048), t.station_a.sge(0, 2048)};
  parts[1].lkey.value ^= 1;
  t.expect(1, 65536);
  REQUIRE(t.a.send(t.request(Opcode::send, 1, parts)));
  t.post(Opcode::send, 2, 100);
  REQUIRE(t.world.run());
  const std::vector<Completion> sent = t.a.sent();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].status == Status::local_protection_error);
  CHECK(sent[1].status == Status::flushed);
  CHECK(t.a.qp().state == QpState::sqe);
  REQUIRE(t.station_a.engine().modify_qp(t.a.qp(), {.state = QpState::rts}));
  t.post(Opcode::send, 3, 3000);
  REQUIRE(t.world.run());
  CHECK(t.a.only_sent().status == Status::success);
  CHECK(t.b.only_received().byte_count == 3000);
  CHECK(t.arrived(3000));
}

TEST_CASE("UC: valid orders of packets, roce:C-OPS-69") {
  // After a message has begun with `first`, `second` arrives with the next PSN.
  Dialogue d(make_uc_options());
  const std::vector<std::byte> full(1024, std::byte{1});
  for (uint8_t first = 0x20; first <= 0x2B; ++first) {
    for (uint8_t second = 0x20; second <= 0x2B; ++second) {
      const wire::OpcodeInfo& one = wire::opcode_info(first);
      const wire::OpcodeInfo& two = wire::opcode_info(second);
      INFO(one.name << ", " << two.name);
      const uint64_t rest = d.count(Count::rx_message_rest);
      const uint64_t lost = d.count(Count::rx_message_lost);
      const uint64_t bad = d.count(Count::request_errors);
      for (uint64_t id = 1; id <= 2; ++id) REQUIRE(d.b.recv(id, {d.station_b.sge(0, 65536)}));
      for (const uint8_t opcode : {first, second}) {
        Forgery f = d.request(opcode, d.expected());
        f.payload = full;
        f.length = wire::opcode_info(opcode).ends_message() ? 1024 : 4096;
        CHECK(d.responses_to(f).empty());
      }
      const bool open = one.starts_message() && !one.ends_message();
      const bool follows = open && !two.starts_message() && one.operation == two.operation;
      CHECK(d.count(Count::rx_message_lost) - lost == (open && two.starts_message()));
      CHECK(d.count(Count::rx_message_rest) - rest ==
            uint64_t{!one.starts_message()} + (!two.starts_message() && !open));
      // A WRITE announced 4096 bytes: a LAST after 2048 is wrong too.
      const bool early = follows && two.ends_message() && two.operation == wire::Operation::write;
      CHECK(d.count(Count::request_errors) - bad ==
            (open && !two.starts_message() && (!follows || early)));
      // Leave nothing in progress.
      Forgery end = d.request(wire::kRcWriteOnly + 0x20, d.expected());
      CHECK(d.responses_to(end).empty());
      REQUIRE(d.station_b.engine().modify_qp(d.b.qp(), {.state = QpState::err}));
      REQUIRE(d.station_b.engine().modify_qp(d.b.qp(), {.state = QpState::reset}));
      d.b.received();
      d.world.to_rtr(d.b, d.station_a.address(), d.a.qp().number, Psn{0xFFFFFF}, {});
      d.world.to_rts(d.b, Psn{1}, {});
    }
  }
}

// What arrives of a stream over a bad network is each message at most once, whole and in order.
TEST_CASE("UC: under loss a message arrives whole, in order, once") {
  const uint64_t seed = GENERATE(take(20, random(1, 1 << 30)));
  INFO("seed " << seed << ": ./sim_uc_test --rng-seed as printed above replays it");
  constexpr uint32_t kSlot = 8192;
  constexpr uint64_t kMessages = 60;
  PairOptions o = make_uc_options(Psn{0xFFFFF0}, 256);
  o.seed = seed;
  UcPair t(o);
  uint64_t x = seed;
  t.station_a.tap().filter = [&x](const SentFrame&) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    return (x >> 33) % 16 != 0;
  };
  for (uint64_t i = 0; i < kMessages; ++i) t.expect(i, kSlot, i * kSlot);
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < kMessages; ++i) {
    lengths.push_back(4 + (i * 769 + static_cast<uint32_t>(seed)) % 4000);
    std::memcpy(t.station_a.at(0), &i, 4);
    t.post(Opcode::send, i, lengths[i]);
    REQUIRE(t.world.run());
  }
  const std::vector<Completion> sent = t.a.sent();
  CHECK(sent.size() == kMessages);
  int64_t last = -1;
  const std::vector<Completion> received = t.b.received();
  CHECK(received.size() > 0);
  CHECK(received.size() < kMessages);
  for (const Completion& c : received) {
    REQUIRE(c.status == Status::success);
    uint32_t index = 0;
    const std::byte* const at = t.station_b.at(c.id * kSlot);
    std::memcpy(&index, at, 4);
    CHECK(int64_t{index} > last);
    last = index;
    REQUIRE(index < kMessages);
    CHECK(c.byte_count == lengths[index]);
    CHECK(std::memcmp(at + 4, t.station_a.at(4), c.byte_count - 4) == 0);
  }
}

}  // namespace
}  // namespace weft::test
