// SPDX-License-Identifier: BSD-3-Clause
// Requests that are done at home, among those that go to a peer: when a local invalidate is carried
// out, behind a fence and in SQD, and what it does when its completion queue has no room. A key
// that still opens its memory shows that the request has not been carried out yet.
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr size_t kKeys = 8;

// `a` invalidates keys of its own memory.
struct Local : Pair {
  std::vector<uint32_t> keys;

  explicit Local(const PairOptions& o = {}) : Pair(o) {
    for (size_t i = 0; i < kKeys; ++i)
      keys.push_back(
          station_a.engine().keys().insert(station_a.at(0), 64, Access::all, Station::kDomain));
  }
  SendRequest ends(size_t i, SendFlags flags = SendFlags::signaled) const {
    return {.id = 100 + i,
            .opcode = Opcode::local_invalidate,
            .flags = flags,
            .invalidate = RKey{keys[i]}};
  }
  bool opens(size_t i) {
    std::byte* where;
    return station_a.engine().keys().check(keys[i], Station::kDomain, station_a.address_of(0), 8,
                                           Access::remote_read, &where) == memory::Verdict::ok;
  }
  void post(const std::vector<SendRequest>& requests) {
    REQUIRE(station_a.engine().post_send(a.qp(), requests, world.now()));
    station_a.driver().kick();
  }
};

PairOptions uc_options(uint32_t cq_capacity) {
  PairOptions o;
  o.qp_a.type = o.qp_b.type = QpType::uc;
  o.cq_capacity = cq_capacity;
  return o;
}

TEST_CASE("a fenced invalidate waits for the READ before it, roce:C-OPS-80 roce:C-OPS-88") {
  for (const bool fenced : {true, false}) {
    INFO("fenced " << fenced);
    Local t;
    const Sge target = t.station_a.sge(0, 8000);
    t.post({t.request(Opcode::read, 1, {&target, 1}),
            t.ends(0, fenced ? SendFlags::signaled | SendFlags::fence : SendFlags::signaled)});
    t.world.run_for(Duration::from_us(1));  // the request has left, no answer can be here
    CHECK(t.station_a.count(Count::tx_packets) == 1);
    CHECK(t.opens(0) == fenced);
    CHECK(t.a.sent().empty());
    REQUIRE(t.world.run());
    CHECK(!t.opens(0));
    const std::vector<Completion> sent = t.a.sent();
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].id == 1);
    CHECK(sent[1].id == 100);
    CHECK(sent[1].status == Status::success);
  }
}

TEST_CASE("SQD delays local work until RTS, roce:C-STATE-64 roce:C-OPS-88") {
  for (const PairOptions& options : {PairOptions{}, uc_options(64)}) {
    Local t(options);
    roce::Engine& engine = t.station_a.engine();
    t.post({t.ends(0)});
    REQUIRE(t.world.run());
    CHECK(!t.opens(0));
    REQUIRE(engine.modify_qp(t.a.qp(), {.state = QpState::sqd, .sq_drained_event = true}));
    AsyncEvent event;
    REQUIRE(engine.next_event(event));
    CHECK(event.type == EventType::sq_drained);
    t.post({t.ends(1), t.ends(2)});
    REQUIRE(t.world.run());
    CHECK(t.opens(1));
    CHECK(t.opens(2));
    CHECK(t.a.sent().size() == 1);
    REQUIRE(engine.modify_qp(t.a.qp(), {.state = QpState::rts}));
    t.station_a.driver().kick();
    REQUIRE(t.world.run());
    CHECK(!t.opens(1));
    CHECK(!t.opens(2));
    CHECK(t.a.sent().size() == 2);
  }
}

TEST_CASE("SQD waits for a READ before a fenced invalidate, and then delays the invalidate") {
  Local t;
  roce::Engine& engine = t.station_a.engine();
  const Sge target = t.station_a.sge(0, 8000);
  t.post({t.request(Opcode::read, 1, {&target, 1}),
          t.ends(0, SendFlags::signaled | SendFlags::fence)});
  t.world.run_for(Duration::from_us(1));
  REQUIRE(engine.modify_qp(t.a.qp(), {.state = QpState::sqd, .sq_drained_event = true}));
  REQUIRE(t.world.run());
  AsyncEvent event;
  REQUIRE(engine.next_event(event));
  CHECK(event.type == EventType::sq_drained);
  CHECK(t.a.only_sent().id == 1);
  CHECK(t.opens(0));
  REQUIRE(engine.modify_qp(t.a.qp(), {.state = QpState::rts}));
  t.station_a.driver().kick();
  REQUIRE(t.world.run());
  CHECK(t.a.only_sent().id == 100);
  CHECK(!t.opens(0));
}

TEST_CASE("local work that overruns its completion queue ends the queue pair, roce:C-OPS-91") {
  for (const bool uc : {false, true}) {
    INFO("uc " << uc);
    PairOptions options = uc ? uc_options(2) : PairOptions{};
    options.cq_capacity = 2;
    Local t(options);
    const uint32_t room = t.a.send_cq().capacity();
    REQUIRE(room < kKeys);
    std::vector<SendRequest> all;
    for (size_t i = 0; i < kKeys; ++i) all.push_back(t.ends(i));
    t.post(all);
    REQUIRE(t.world.run());
    CHECK(t.a.qp().state == QpState::err);
    CHECK(t.a.qp().sq.empty());
    CHECK(t.station_a.count(Count::cq_overruns) == kKeys - room);
    AsyncEvent event;
    size_t told = 0, fatal = 0;
    while (t.station_a.engine().next_event(event)) {
      told += event.type == EventType::cq_error;
      fatal += event.type == EventType::qp_fatal && event.qp == t.a.qp().number;
    }
    CHECK(told == 1);
    CHECK(fatal == 1);  // it is told once, however much is lost
    const std::vector<Completion> sent = t.a.sent();
    REQUIRE(sent.size() == room);
    for (size_t i = 0; i < room; ++i) {
      CHECK(sent[i].id == 100 + i);
      CHECK(sent[i].status == Status::success);
    }
  }
}

}  // namespace
}  // namespace weft::test
