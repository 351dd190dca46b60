// SPDX-License-Identifier: BSD-3-Clause
// Each SRD operation alone in a quiet network, in all sizes around the MTU, and each of its errors:
// an error belongs to its request, the queue pair goes on.
#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"
#include "tests/virtual_time/pair.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

struct BasicTwo : SrdTwo {
  explicit BasicTwo(const SrdOptions& options = {}) : SrdTwo(with_memory(options)) {}
  static SrdOptions with_memory(SrdOptions o) {
    o.memory = 8u << 20;
    return o;
  }
  // The only completion of a's send queue.
  Completion finish(const SendRequest& r) {
    REQUIRE(a.post(b, r));
    std::vector<Completion> all;
    REQUIRE(world.run_until([&] {
      for (const Completion& c : a.sent()) all.push_back(c);
      return !all.empty();
    }));
    REQUIRE(all.size() == 1);
    CHECK(all[0].id == r.id);
    return all[0];
  }
};

constexpr uint32_t kSizes[] = {0, 1, 7, 8, 63, 1024, 4095, 4096, 4097, 8192, 65537, 3'000'000};

}  // namespace

TEST_CASE("SEND of any size arrives in the posted receive") {
  BasicTwo t;
  for (const uint32_t size : kSizes) {
    INFO(size);
    fill(t.a.at(0), size, size + 1);
    std::memset(t.b.at(0), 0, size + 16);
    REQUIRE(t.b.recv(7, t.b.sge(0, size + 8)));
    const Sge out = t.a.sge(0, size);
    SendRequest r = t.request(Opcode::send_with_imm, 3, {&out, 1});
    r.imm = 0x12345678;
    r.imm_high = 0x9ABCDEF0;
    CHECK(t.finish(r).status == Status::success);
    const auto got = t.b.received();
    REQUIRE(got.size() == 1);
    CHECK(got[0].id == 7);
    CHECK(got[0].byte_count == size);
    CHECK(got[0].imm_or_key == r.imm);
    CHECK(got[0].imm_high == r.imm_high);
    CHECK(got[0].source_qp == t.a.number());
    CHECK(t.b.engine().peer(got[0].source_peer)->address == t.a.host().address());
    CHECK(std::memcmp(t.a.at(0), t.b.at(0), size) == 0);
    CHECK(all_are(t.b.at(size), 16, std::byte{0}));
  }
  CHECK(t.a.count(Count::tx_retransmits) == 0);
}

TEST_CASE("WRITE changes its address range only, READ returns it") {
  BasicTwo t;
  for (const uint32_t size : kSizes) {
    INFO(size);
    fill(t.a.at(0), size, size + 2);
    std::memset(t.b.at(0), 0, size + 64);
    const Sge out = t.a.sge(0, size);
    CHECK(t.finish(t.request(Opcode::write, 1, {&out, 1}, 24)).status == Status::success);
    CHECK(std::memcmp(t.a.at(0), t.b.at(24), size) == 0);
    CHECK(all_are(t.b.at(0), 24, std::byte{0}));
    CHECK(all_are(t.b.at(24 + size), 16, std::byte{0}));
    const Sge in = t.a.sge(4 << 20, size);
    const Completion read = t.finish(t.request(Opcode::read, 2, {&in, 1}, 24));
    CHECK(read.status == Status::success);
    CHECK(read.byte_count == size);
    CHECK(std::memcmp(t.a.at(0), t.a.at(4 << 20), size) == 0);
  }
  CHECK(t.a.count(Count::tx_retransmits) + t.b.count(Count::tx_retransmits) == 0);
}

TEST_CASE("WRITE with immediate consumes a receive when all of it has arrived") {
  BasicTwo t;
  for (const uint32_t size : {0u, 8u, 5000u, 100'000u}) {
    fill(t.a.at(0), size, size + 3);
    REQUIRE(t.b.recv(9, t.b.sge(0, 0)));
    const Sge out = t.a.sge(0, size);
    SendRequest r = t.request(Opcode::write_with_imm, 1, {&out, 1}, 64);
    r.imm = size;
    CHECK(t.finish(r).status == Status::success);
    const auto got = t.b.received();
    REQUIRE(got.size() == 1);
    CHECK(got[0].byte_count == size);
    CHECK(got[0].imm_or_key == size);
    CHECK(has(got[0].flags, CompletionFlags::rdma_write | CompletionFlags::with_imm));
    CHECK(std::memcmp(t.a.at(0), t.b.at(64), size) == 0);
  }
}

TEST_CASE("atomics return the value before") {
  BasicTwo t;
  t.b.word(8) = 100;
  const Sge in = t.a.sge(0, 8);
  SendRequest add = t.request(Opcode::fetch_add, 1, {&in, 1}, 8);
  add.compare_add = 5;
  CHECK(t.finish(add).status == Status::success);
  CHECK(t.a.word(0) == 100);
  CHECK(t.b.word(8) == 105);
  SendRequest swap = t.request(Opcode::compare_swap, 2, {&in, 1}, 8);
  swap.compare_add = 105;
  swap.swap = 7;
  CHECK(t.finish(swap).status == Status::success);
  CHECK(t.a.word(0) == 105);
  CHECK(t.b.word(8) == 7);
  swap.compare_add = 8;
  CHECK(t.finish(swap).status == Status::success);
  CHECK(t.a.word(0) == 7);
  CHECK(t.b.word(8) == 7);
}

TEST_CASE("WRITE_ADD adds element by element") {
  BasicTwo t;
  constexpr uint32_t kCount = 5000;
  auto* const from = reinterpret_cast<float*>(t.a.at(0));
  auto* const to = reinterpret_cast<float*>(t.b.at(0));
  for (uint32_t i = 0; i < kCount; ++i) from[i] = static_cast<float>(i), to[i] = 0.5f;
  const Sge out = t.a.sge(0, kCount * 4);
  SendRequest r = t.request(Opcode::write_add, 1, {&out, 1});
  r.element = Element::fp32;
  CHECK(t.finish(r).status == Status::success);
  CHECK(t.finish(r).status == Status::success);
  for (uint32_t i = 0; i < kCount; ++i) REQUIRE(to[i] == 2 * static_cast<float>(i) + 0.5f);
  t.b.word(0) = ~uint64_t{0};
  t.a.word(0) = 2;
  const Sge word = t.a.sge(0, 8);
  r.sges = {&word, 1};
  r.element = Element::int64;
  CHECK(t.finish(r).status == Status::success);
  CHECK(t.b.word(0) == 1);
  r.element = Element::int32;
  t.a.word(0) = (uint64_t{1} << 32) | 0xFFFFFFFF;
  CHECK(t.finish(r).status == Status::success);
  CHECK(t.b.word(0) == uint64_t{1} << 32);
}

TEST_CASE("an error belongs to its request, the queue pair goes on") {
  BasicTwo t;
  const Sge out = t.a.sge(0, 20'000);
  SendRequest bad_key = t.request(Opcode::write, 1, {&out, 1});
  bad_key.rkey.value ^= 1;
  CHECK(t.finish(bad_key).status == Status::remote_access_error);
  SendRequest beyond = t.request(Opcode::read, 2, {&out, 1}, (8u << 20) - 19'999);
  CHECK(t.finish(beyond).status == Status::remote_access_error);
  const Sge in = t.a.sge(0, 8);
  CHECK(t.finish(t.request(Opcode::fetch_add, 3, {&in, 1}, 4)).status ==
        Status::remote_invalid_request);
  REQUIRE(t.b.recv(1, t.b.sge(0, 100)));
  CHECK(t.finish(t.request(Opcode::send, 4, {&out, 1})).status == Status::remote_invalid_request);
  const Sge foreign{t.a.at(0), 20'000, LKey{t.a.key() ^ 1}};
  CHECK(t.finish(t.request(Opcode::write, 5, {&foreign, 1})).status ==
        Status::local_protection_error);
  CHECK(t.b.received().empty());
  // The receive is still there, and everything else works.
  const Sge small = t.a.sge(0, 100);
  CHECK(t.finish(t.request(Opcode::send, 6, {&small, 1})).status == Status::success);
  CHECK(t.b.received().size() == 1);
  CHECK(t.a.qp().state == QpState::rts);
  CHECK(t.b.qp().state == QpState::rts);
}

TEST_CASE("a SEND without a receive waits, then arrives, other messages overtake it") {
  BasicTwo t;
  fill(t.a.at(0), 50'000, 9);
  const Sge out = t.a.sge(0, 50'000);
  REQUIRE(t.a.post(t.b, t.request(Opcode::send, 1, {&out, 1})));
  t.world.run_for(Duration::from_us(300));
  CHECK(t.a.sent().empty());
  CHECK(t.finish(t.request(Opcode::write, 2, {&out, 1}, 1u << 20)).id == 2);
  REQUIRE(t.b.recv(3, t.b.sge(0, 50'000)));
  std::vector<Completion> done;
  REQUIRE(t.world.run_until([&] {
    for (const Completion& c : t.a.sent()) done.push_back(c);
    return !done.empty();
  }));
  CHECK(done[0].id == 1);
  CHECK(done[0].status == Status::success);
  CHECK(t.b.received().size() == 1);
  CHECK(std::memcmp(t.a.at(0), t.b.at(0), 50'000) == 0);
  CHECK(t.a.count(Count::rx_rnr_naks) > 0);
}

TEST_CASE("rnr_retry bounds the attempts of a SEND without a receive") {
  BasicTwo t;
  QueuePairAttributes change;
  change.rnr_retry = uint8_t{2};
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  const Sge out = t.a.sge(0, 10);
  CHECK(t.finish(t.request(Opcode::send, 1, {&out, 1})).status == Status::rnr_retry_exceeded);
}

// A round trip longer than the first probe waits for, and never two packets at a time.
TEST_CASE("after a distant peer's round trip is measured, nothing is retransmitted") {
  SrdOptions o;
  o.link.delay = Duration::from_us(1250);
  BasicTwo t(o);
  const Sge out = t.a.sge(0, 10);
  REQUIRE(t.finish(t.request(Opcode::write, 1, {&out, 1})).status == Status::success);
  t.world.run_for(Duration::from_ms(50));
  const uint64_t first = t.a.count(Count::tail_probes);
  for (uint64_t id = 2; id < 12; ++id)
    REQUIRE(t.finish(t.request(Opcode::write, id, {&out, 1})).status == Status::success);
  CHECK(first > 0);
  CHECK(t.a.count(Count::tail_probes) == first);
}

TEST_CASE("requests to a peer that never answers fail with retry_exceeded") {
  SrdOptions o;
  o.config.dead_peer_timeout = Duration::from_ms(50);
  BasicTwo t(o);
  middleware::FaultOptions hole;
  hole.blackhole = middleware::FaultDirection::both;
  t.b.life().fault->change(hole);
  const Sge out = t.a.sge(0, 10);
  CHECK(t.finish(t.request(Opcode::write, 1, {&out, 1})).status == Status::retry_exceeded);
  t.b.life().fault->change({});
  CHECK(t.finish(t.request(Opcode::write, 2, {&out, 1})).status == Status::success);
}
