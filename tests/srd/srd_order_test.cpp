// SPDX-License-Identifier: BSD-3-Clause
// Ordered SENDs: received in the order in which they were posted, over paths that reorder and lose,
// with few receives, with failures in the middle, and never more of them in flight than the
// window.
#include <algorithm>
#include <set>

#include "lib/wire/srd_parse.hpp"
#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"
#include "tests/virtual_time/pair.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

constexpr uint32_t kSize = 20'000;
constexpr uint32_t kReceives = 8;

SrdOptions order_options(uint64_t seed, bool faulty) {
  SrdOptions o;
  o.seed = seed;
  o.memory = 1u << 20;
  o.qp.max_send_wr = 512;
  o.config.dead_peer_timeout = Duration::from_s(60);
  if (!faulty) return o;
  o.faults.loss = 50'000;
  o.faults.dup = 20'000;
  o.faults.reorder = 200'000;
  o.faults.reorder_time = Duration::from_us(100);
  return o;
}

// `a` posts SENDs whose immediate counts them; `b` receives with few receives.
struct Line : SrdTwo {
  explicit Line(const SrdOptions& o) : SrdTwo(o), random(o.seed) {
    for (uint64_t i = 0; i < kReceives; ++i) REQUIRE(b.recv(i, b.sge(i * kSize, kSize)));
    b.life().after_turn = [this] {
      for (const Completion& c : b.received()) {
        REQUIRE(c.status == Status::success);
        arrived.push_back(c.imm_or_key);
        if (repost) REQUIRE(b.recv(c.id, b.sge(c.id * kSize, kSize)));
      }
    };
    a.life().after_turn = [this] {
      for (const Completion& c : a.sent()) done.push_back(c);
    };
  }
  void send(uint32_t number, uint32_t length, SendFlags flags = SendFlags::ordered) {
    const Sge sge = a.sge(0, length);
    SendRequest r = request(Opcode::send_with_imm, number, {&sge, 1});
    r.flags = SendFlags::signaled | flags;
    r.imm = number;
    REQUIRE(a.post(b, r));
  }

  base::Random random;
  bool repost = true;
  std::vector<uint32_t> arrived;
  std::vector<Completion> done;
};

}  // namespace

TEST_CASE("ordered SENDs are received in order, unordered ones are not") {
  for (const bool ordered : {true, false}) {
    bool sorted = true;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      INFO("seed " << seed);
      Line t(order_options(seed, true));
      for (uint32_t i = 0; i < 300; ++i)
        t.send(i, static_cast<uint32_t>(t.random.below(t.random.below(3) == 0 ? kSize : 200)),
               ordered ? SendFlags::ordered : SendFlags::none);
      REQUIRE(t.world.run_until([&] { return t.arrived.size() == 300 && t.done.size() == 300; },
                                Duration::from_s(20)));
      sorted = sorted && std::is_sorted(t.arrived.begin(), t.arrived.end());
      CHECK(std::set<uint32_t>(t.arrived.begin(), t.arrived.end()).size() == 300);
    }
    CHECK(sorted == ordered);
  }
}

TEST_CASE("no more than 64 ordered SENDs are started while the first is missing") {
  Line t(order_options(3, false));
  std::set<uint32_t> orders;
  t.a.life().tap->filter = [&](const SentFrame& frame) {
    wire::SrdPacket p;
    REQUIRE(wire::srd_parse(frame.bytes.data(), static_cast<uint32_t>(frame.bytes.size()), 4, 0,
                            p) == wire::SrdError::none);
    if (!p.has(wire::srd_flag::kOrdered)) return true;
    orders.insert(p.order);
    return p.order != 0;
  };
  for (uint32_t i = 0; i < 200; ++i) t.send(i, 100);
  t.world.run_for(Duration::from_ms(50));
  CHECK(t.arrived.empty());
  CHECK(*orders.rbegin() == 63);
  // Others are not held up.
  t.send(1000, 100, SendFlags::none);
  t.world.run_for(Duration::from_ms(5));
  CHECK(t.arrived == std::vector<uint32_t>{1000});
  t.a.life().tap->filter = nullptr;
  // Messages that found no receive so often wait up to a second by now.
  REQUIRE(t.world.run_until([&] { return t.arrived.size() == 201; }, Duration::from_s(60)));
  CHECK(std::is_sorted(t.arrived.begin() + 1, t.arrived.end()));
}

TEST_CASE("a later SEND does not take the receive that an earlier one needs") {
  Line t(order_options(5, false));
  t.repost = false;
  bool blocked = true;
  t.a.life().tap->filter = [&](const SentFrame& frame) {
    wire::SrdPacket p;
    (void)wire::srd_parse(frame.bytes.data(), static_cast<uint32_t>(frame.bytes.size()), 4, 0, p);
    return !(blocked && p.has(wire::srd_flag::kOrdered) && p.order < 2);
  };
  for (uint32_t i = 0; i < 20; ++i) t.send(i, 100);
  t.world.run_for(Duration::from_ms(20));
  CHECK(t.b.qp().receives.size() == 2);
  blocked = false;
  REQUIRE(t.world.run_until([&] { return t.arrived.size() == kReceives; }));
  t.world.run_for(Duration::from_ms(5));
  CHECK(t.arrived == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("a failed ordered SEND is skipped, also one beyond the window") {
  Line t(order_options(7, false));
  for (uint32_t i = 0; i < 200; ++i) t.send(i, i == 3 || i == 150 ? kSize + 1 : 100);
  REQUIRE(t.world.run_until([&] { return t.arrived.size() == 198 && t.done.size() == 200; }));
  CHECK(std::is_sorted(t.arrived.begin(), t.arrived.end()));
  for (const Completion& c : t.done)
    CHECK((c.status == Status::success) == (c.id != 3 && c.id != 150));
}

TEST_CASE("a destroyed queue pair leaves no gap in the order of the others") {
  Line t(order_options(9, false));
  t.a.life().tap->filter = [](const SentFrame&) { return false; };
  for (uint32_t i = 0; i < 150; ++i) t.send(i, 100);
  t.world.run_for(Duration::from_ms(1));
  QueuePairAttributes change;
  change.state = QpState::err;
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  t.a.life().tap->filter = nullptr;
  change.state = QpState::reset;
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    change.state = state;
    REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  }
  for (uint32_t i = 1000; i < 1100; ++i) t.send(i, 100);
  REQUIRE(t.world.run_until([&] { return !t.arrived.empty() && t.arrived.back() == 1099; }));
  CHECK(std::is_sorted(t.arrived.begin(), t.arrived.end()));
}

TEST_CASE("order survives a restart of the receiver") {
  Line t(order_options(11, false));
  for (uint32_t i = 0; i < 10; ++i) t.send(i, 100);
  REQUIRE(t.world.run_until([&] { return t.done.size() == 10; }));
  t.b.restart();
  for (uint64_t i = 0; i < kReceives; ++i) REQUIRE(t.b.recv(i, t.b.sge(i * kSize, kSize)));
  t.send(10, 100);  // no acknowledgement arrives
  REQUIRE(t.world.run_until([&] { return t.done.size() == 11; }));
  for (uint32_t i = 11; i < 11 + kReceives; ++i) t.send(i, 100);
  REQUIRE(t.world.run_until([&] { return t.done.size() == 11 + kReceives; }));
  const std::vector<Completion> got = t.b.received();
  REQUIRE(got.size() == kReceives);
  for (uint32_t i = 0; i < kReceives; ++i) CHECK(got[i].imm_or_key == 11 + i);
}

// Numbers of very different size: their sum depends on the order.
TEST_CASE("ordered WRITE_ADDs are added in the order of posting, others are not") {
  constexpr uint32_t kElements = 2000, kAdds = 24;
  for (const bool ordered : {true, false}) {
    bool same = true;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      INFO("seed " << seed);
      SrdTwo t(order_options(seed, true));
      std::memset(t.b.at(0), 0, 4 * kElements);
      base::Random random(seed);
      std::vector<float> sum(kElements);
      for (uint32_t k = 0; k < kAdds; ++k) {
        for (uint32_t i = 0; i < kElements; ++i) {
          const auto odd = static_cast<float>(random.below(1000));
          const float value = random.below(2) == 0 ? odd * 1e6f : odd * 1e-3f;
          std::memcpy(t.a.at(4 * (k * kElements + i)), &value, 4);
          sum[i] += value;
        }
        const Sge out = t.a.sge(size_t{4} * k * kElements, 4 * kElements);
        SendRequest r = t.request(Opcode::write_add, k, {&out, 1});
        r.element = Element::fp32;
        if (ordered) r.flags = r.flags | SendFlags::ordered;
        REQUIRE(t.a.post(t.b, r));
      }
      uint32_t done = 0;
      REQUIRE(t.world.run_until([&] {
        for (const Completion& c : t.a.sent()) done += c.status == Status::success;
        return done == kAdds;
      }));
      same = same && std::memcmp(t.b.at(0), sum.data(), 4 * kElements) == 0;
    }
    CHECK(same == ordered);
  }
}

TEST_CASE("an ordered WRITE_ADD that fails or is detached does not block the next") {
  SrdTwo t(order_options(1, false));
  const Sge out = t.a.sge(0, 8);
  t.a.word(0) = 1;
  uint32_t ok = 0, bad = 0;
  t.a.life().after_turn = [&] {
    for (const Completion& c : t.a.sent()) ++(c.status == Status::success ? ok : bad);
  };
  const auto post = [&](bool spoilt) {
    SendRequest r = t.request(Opcode::write_add, 1, {&out, 1});
    r.element = Element::int64;
    r.flags = r.flags | SendFlags::ordered;
    if (spoilt) r.rkey.value ^= 1;
    REQUIRE(t.a.post(t.b, r));
  };
  for (int i = 0; i < 10; ++i) post(i % 3 == 0);
  REQUIRE(t.world.run_until([&] { return ok + bad == 10; }));
  CHECK(ok == 6);
  CHECK(t.b.word(0) == 6);
  for (int i = 0; i < 3; ++i) post(false);
  t.b.restart();  // the first may or may not be lost, the others go to the next process
  REQUIRE(t.world.run_until([&] { return ok + bad == 13; }));
  for (int i = 0; i < 3; ++i) post(false);
  REQUIRE(t.world.run_until([&] { return ok + bad == 16; }));
  CHECK(ok >= 9);
}
