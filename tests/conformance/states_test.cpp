// SPDX-License-Identifier: BSD-3-Clause
// The states of queue pairs through the public API: transitions, posting in each state, full queues
// and overrun, SQD, RESET, destruction with requests outstanding.
#include <functional>
#include <set>
#include <string>

#include "tests/conformance/fixture.hpp"

namespace weft {
namespace {

using namespace test;

// iWARP: a connection manager makes the steps that would need them.
bool refuses_steps(const Side& side, const QueuePair& qp) {
  if (!side.device.attributes().only_by_cm) return false;
  for (const QpState state : {QpState::rtr, QpState::rts, QpState::sqd}) {
    const Result<void> r = qp.modify({.state = state});
    CHECK(r.error().code == Code::not_supported);
    CHECK(r.error().message.find("is iWARP, whose queue pairs") != std::string::npos);
  }
  return true;
}

void missing_attributes(Wire wire) {
  const Side side(device_string(wire));
  const QueuePair qp = side.queue_pair(), peer = side.queue_pair();
  const Walk walk;
  using Change = QueuePairAttributes;
  const auto refuses = [&](Change change, const char* attribute,
                           const std::function<void(Change&)>& forget) {
    forget(change);
    const QpState before = qp.state();
    const Result<void> r = qp.modify(change);
    REQUIRE_FALSE(r);
    INFO(r.error().message);
    CHECK(r.error().code == Code::invalid_argument);
    CHECK(r.error().message.find("`" + std::string(attribute) + "`") != std::string::npos);
    CHECK(qp.state() == before);
  };
  const Change init = to_init(walk), rtr = to_rtr(walk, peer, Psn{1}), rts = to_rts(walk, Psn{2});
  refuses(init, "pkey_index", [](Change& c) { c.pkey_index.reset(); });
  refuses(init, "port", [](Change& c) { c.port.reset(); });
  refuses(init, "access", [](Change& c) { c.access.reset(); });
  refuses(init, "sq_psn", [](Change& c) { c.sq_psn = Psn{1}; });  // not allowed there
  REQUIRE(qp.modify(init));
  if (refuses_steps(side, qp)) return;
  refuses(rtr, "path", [](Change& c) { c.path.reset(); });
  refuses(rtr, "path_mtu", [](Change& c) { c.path_mtu.reset(); });
  refuses(rtr, "dest_qpn", [](Change& c) { c.dest_qpn.reset(); });
  refuses(rtr, "rq_psn", [](Change& c) { c.rq_psn.reset(); });
  refuses(rtr, "max_dest_rd_atomic", [](Change& c) { c.max_dest_rd_atomic.reset(); });
  refuses(rtr, "min_rnr_timer", [](Change& c) { c.min_rnr_timer.reset(); });
  REQUIRE(qp.modify(rtr));
  refuses(rts, "timeout", [](Change& c) { c.timeout.reset(); });
  refuses(rts, "retry_count", [](Change& c) { c.retry_count.reset(); });
  refuses(rts, "rnr_retry", [](Change& c) { c.rnr_retry.reset(); });
  refuses(rts, "sq_psn", [](Change& c) { c.sq_psn.reset(); });
  refuses(rts, "max_rd_atomic", [](Change& c) { c.max_rd_atomic.reset(); });
  REQUIRE(qp.modify(rts));
}
WEFT_ON_EACH_PORT(missing_attributes,
                  "a missing attribute is named (C-STATE-54 C-STATE-55 C-STATE-57)")

void wrong_values(Wire wire) {
  const Side side(device_string(wire));
  const QueuePair qp = side.queue_pair();
  REQUIRE(qp.modify(to_init()));
  if (refuses_steps(side, qp)) return;
  for (const uint32_t mtu : {0u, 255u, 300u, 1u << 30}) {
    const Result<void> r = qp.modify(to_rtr({.mtu = mtu}, qp, Psn{1}));
    REQUIRE_FALSE(r);
    CHECK(r.error().message.find("path_mtu") != std::string::npos);
  }
  CHECK(qp.modify({.state = QpState::rts}).error().code == Code::bad_state);
  CHECK(qp.modify({.state = QpState::sqd}).error().code == Code::bad_state);
  CHECK(qp.state() == QpState::init);
}
WEFT_ON_EACH_PORT(wrong_values, "wrong values and transitions are refused (C-STATE-54 C-OPS-71)")

void not_supported(Wire wire) {
  const Side side(device_string(wire));
  const Result<QueuePair> qp =
      side.pd.queue_pair({.type = QpType::srd, .send_cq = side.cq, .recv_cq = side.cq});
  REQUIRE_FALSE(qp);
  CHECK(qp.error().code == Code::not_supported);
  CHECK(qp.error().message.find("srd device") != std::string::npos);
}
WEFT_ON_EACH_PORT(not_supported, "an unsupported service is refused (C-OPS-93)")

void rights_that_need_others(Wire wire) {
  const Side side(device_string(wire));
  alignas(8) std::byte memory[64];
  for (const Access access : {Access::remote_write, Access::remote_atomic}) {
    const Result<MemoryRegion> region = side.pd.register_memory(memory, sizeof memory, access);
    REQUIRE_FALSE(region);
    CHECK(region.error().message.find("local_write") != std::string::npos);
    CHECK(side.pd.register_memory(memory, sizeof memory, access | Access::local_write));
  }
}
WEFT_ON_EACH_PORT_AND_SRD(rights_that_need_others,
                          "remote rights to write need local ones (C-OPS-89)")

void query(Wire wire) {
  const Walk walk{.mtu = 512,
                  .max_rd_atomic = 3,
                  .timeout = 9,
                  .retry_count = 4,
                  .rnr_retry = 5,
                  .min_rnr_timer = 8,
                  .access = Access::remote_read};
  Pair p(wire, {.walk = walk});
  const QueuePairAttributes q = p.qa.query();
  CHECK(q.state == QpState::rts);
  if (p.a.device.attributes().only_by_cm) return;  // the other attributes are not set
  CHECK(q.path_mtu == 512u);
  CHECK(q.dest_qpn == p.qb.number());
  CHECK(q.sq_psn == walk.psn_a);
  CHECK(q.rq_psn == walk.psn_b);
  CHECK(q.max_rd_atomic == uint8_t{3});
  CHECK(q.max_dest_rd_atomic == uint8_t{3});
  CHECK(q.timeout == uint8_t{9});
  CHECK(q.retry_count == uint8_t{4});
  CHECK(q.rnr_retry == uint8_t{5});
  CHECK(q.min_rnr_timer == uint8_t{8});
  CHECK(q.access == Access::remote_read);
  REQUIRE(q.path);
  CHECK(q.path->destination == p.b.device.attributes().gid);
  CHECK(p.qa.number() != p.qb.number());
  if (wire == Wire::ibverbs) {  // one device, opened twice
    CHECK(p.a.device.attributes().provider == "ibverbs");
    return;
  }
  CHECK(p.a.device.attributes().gid != p.b.device.attributes().gid);
  CHECK(p.a.device.attributes().provider == (is_srd(wire) ? "srd" : "roce"));
}
WEFT_ON_EACH_PORT_AND_SRD(query, "query returns the current attributes")

void posting_rules(Wire wire) {
  Side a(device_string(wire));
  const QueuePair qp = a.queue_pair({.max_recv_wr = 8});
  const Buffer buffer(a, 64);
  const Sge sge = buffer.sge(0, 8);
  const SendRequest send{.id = 1, .sges = {&sge, 1}};
  const RecvRequest receive{.id = 2, .sges = {&sge, 1}};
  CHECK(qp.post_send(send).code == Code::bad_state);
  CHECK(qp.post_recv(receive).code == Code::bad_state);
  REQUIRE(qp.modify(to_init()));
  CHECK(qp.post_send(send).code == Code::bad_state);
  CHECK(qp.post_recv(receive));
  if (!refuses_steps(a, qp)) REQUIRE(qp.modify(to_rtr({}, qp, Psn{0})));
  CHECK(qp.post_send(send).code == Code::bad_state);
  CHECK(qp.post_recv(receive));
  REQUIRE(qp.modify({.state = QpState::err}));
  CHECK(qp.post_send(send));  // accepted and flushed
  CHECK(qp.post_recv(receive));
  REQUIRE(pump_until({&a}, [&] { return a.got.size() >= 4; }));
  for (const Completion& c : a.got) CHECK(c.status == Status::flushed);
  CHECK(a.got.size() == 4);
}
WEFT_ON_EACH_PORT_AND_SRD(posting_rules,
                          "what may be posted in which state (C-STATE-59 C-STATE-61)")

void overrun(Wire wire) {
  Pair p(wire, {.cq_capacity = 4});
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8);
  std::vector<SendRequest> sends;
  for (uint64_t i = 0; i < 16; ++i) {
    sends.push_back({.id = i,
                     .opcode = Opcode::write,
                     .sges = {&out, 1},
                     .remote_address = far.address(),
                     .rkey = far.region.rkey()});
  }
  REQUIRE(p.qa.post_send(sends));
  // a's queue is not polled; its progress thread receives the acknowledgements.
  const bool goes_on =
      is_rxe(p.a) || p.a.device.attributes().only_by_cm;  // its queue pair stays in RTS
  bool seen = false, fatal = false;
  const Deadline deadline;
  while ((!seen || (!fatal && !goes_on)) && !deadline.passed()) {
    p.a.device.progress();
    p.b.poll();
    while (const std::optional<AsyncEvent> event = p.a.device.next_event()) {
      if (event->type == EventType::cq_error) {
        CHECK(event->completion_queue == p.a.cq.number());
        seen = true;
      }
      fatal |= event->type == EventType::qp_fatal && event->qp == p.qa.number();
    }
  }
  CHECK(seen);
  CHECK(fatal == !goes_on);
  if (goes_on) return;
  CHECK(p.qa.state() == QpState::err);
  p.poll_for(Duration::from_ms(5));
  CHECK(p.a.got.size() <= p.a.cq.capacity());
  if (p.a.counts("cq_overruns")) CHECK(p.a.counter("cq_overruns") > 0);
}
WEFT_ON_EACH_PORT_AND_SRD(overrun, "an overrun completion queue is an event (C-OPS-91 threat:A18)")

void drained(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 128}});
  const Buffer near(p.a, 100'000), far(p.b, 100'000);
  const Sge out = near.sge(0, 100'000);
  std::vector<SendRequest> sends;
  for (uint64_t i = 0; i < 100; ++i) {
    sends.push_back({.id = i,
                     .opcode = Opcode::write,
                     .sges = {&out, 1},
                     .remote_address = far.address(),
                     .rkey = far.region.rkey()});
  }
  if (p.a.device.attributes().only_by_cm) {
    (void)refuses_steps(p.a, p.a.queue_pair());
    return;
  }
  REQUIRE(p.qa.post_send(sends));
  REQUIRE(p.qa.modify({.state = QpState::sqd, .sq_drained_event = true}));
  bool seen = false;
  REQUIRE(pump_until({&p.a, &p.b},
                     [&] { return seen = seen || saw_event(p.a.device, EventType::sq_drained); }));
  p.poll_for(Duration::from_ms(5));
  const size_t before = p.a.got.size();
  if (!is_rxe(p.a)) CHECK(before < 100);  // it stopped between messages; rxe had sent all before
  p.poll_for(Duration::from_ms(10));
  CHECK(p.a.got.size() == before);
  REQUIRE(p.qa.modify({.state = QpState::rts}));
  for (uint64_t i = 0; const Completion& c : p.wait(p.a, 100)) {
    CHECK(c.status == Status::success);
    CHECK(c.id == i++);
  }
}
WEFT_ON_EACH_PORT(drained, "SQD stops between messages and RTS goes on without loss (C-STATE-64)")

void reset_and_reuse(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 4096), far(p.b, 4096);
  const Sge out = near.sge(0, 4096), in = far.sge(0, 4096);
  if (p.a.device.attributes().only_by_cm) {  // a queue pair belongs to one connection
    const Result<void> reset = p.qa.modify({.state = QpState::reset});
    REQUIRE_FALSE(reset);
    CHECK(reset.error().code == Code::not_supported);
    CHECK(p.qa.state() == QpState::rts);
    return;
  }
  const QpNum number = p.qa.number();
  for (uint64_t round = 0; round < 5; ++round) {
    fill(near.bytes(), round);
    for (int i = 0; i < 10; ++i) REQUIRE(p.qb.post_recv({.id = round, .sges = {&in, 1}}));
    REQUIRE(p.qa.post_send({.id = round, .sges = {&out, 1}}));
    CHECK(p.next(p.b).status == Status::success);
    CHECK(p.next(p.a).status == Status::success);
    CHECK(equal(near.bytes(), far.bytes()));
    // Nine receives and a send are outstanding: RESET drops them without completions.
    REQUIRE(p.qb.modify({.state = QpState::reset}));
    REQUIRE(p.qa.post_send({.id = 99, .sges = {&out, 1}}));
    REQUIRE(p.qa.modify({.state = QpState::reset}));
    p.poll_for(Duration::from_ms(2));
    CHECK(p.a.got.empty());
    CHECK(p.b.got.empty());
    CHECK(p.qa.number() == number);
    connect(p.qa, p.qb, {.psn_a = {100 + static_cast<uint32_t>(round)}, .psn_b = {7}});
  }
}
WEFT_ON_EACH_PORT_AND_SRD(reset_and_reuse,
                          "RESET clears a queue pair that then connects again (C-STATE-66)")

void destroyed(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 64, .max_recv_wr = 64}, .cq_capacity = 4096});
  const Buffer near(p.a, 65536), far(p.b, 65536);
  const Sge out = near.sge(0, 65536), in = far.sge(0, 65536);
  for (int round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < 32; ++i) {
      REQUIRE(p.qb.post_recv({.id = i, .sges = {&in, 1}}));
      REQUIRE(p.qa.post_send({.id = i, .sges = {&out, 1}}));
    }
    p.poll_for(Duration::from_us(100 * round));
    const QpNum old_a = p.qa.number(), old_b = p.qb.number();
    p.qa = QueuePair{};
    p.qb = QueuePair{};
    p.a.poll();
    p.b.poll();
    p.a.got.clear();
    p.b.got.clear();
    p.qa = p.a.queue_pair({.max_send_wr = 64, .max_recv_wr = 64});
    p.qb = p.b.queue_pair({.max_send_wr = 64, .max_recv_wr = 64});
    if (!is_siw(p.a)) {  // whose kernel reuses numbers at once
      CHECK(p.qa.number() != old_a);
      CHECK(p.qb.number() != old_b);
    }
    p.poll_for(Duration::from_ms(2));
    CHECK(p.a.got.empty());  // no completions of dropped requests
    CHECK(p.b.got.empty());
    connect(p.qa, p.qb);
    const Sge word = near.sge(0, 8);
    REQUIRE(p.qb.post_recv({.id = 1, .sges = {&in, 1}}));
    REQUIRE(p.qa.post_send({.id = 2, .sges = {&word, 1}}));
    CHECK(p.next(p.b).qp == p.qb.number());
    CHECK(p.next(p.a).qp == p.qa.number());
  }
}
WEFT_ON_EACH_PORT_AND_SRD(destroyed,
                          "a queue pair destroyed at work leaves no completion (C-STATE-67)")

// A target that destroys its queue pair as soon as it sees the data: its acknowledgement was
// delayed for piggy-backing, and must be sent nevertheless.
void last_word(Wire wire) {
  const std::string spec = device_string(wire);
  for (uint64_t round = 0; round < scaled(40); ++round) {
    Side a(spec);
    const Buffer near(a, 64);
    QueuePair qa = a.queue_pair();
    near.word(0) = ~uint64_t{0};
    {
      const Side b(spec);
      const Buffer far(b, 64);
      const QueuePair qb = b.queue_pair();
      connect(qa, qb, {.timeout = 12, .retry_count = 3});
      const Sge sge = near.sge(0, 8);
      REQUIRE(qa.post_send({.opcode = Opcode::write,
                            .sges = {&sge, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
      const volatile uint64_t& word = far.word(0);
      REQUIRE(b.device.wait_until([&word] { return word != 0; }, Duration::from_s(20)));
      if (round % 2 == 1) REQUIRE(qb.modify({.state = QpState::err}));
    }
    REQUIRE(pump_until({&a}, [&a] { return !a.got.empty(); }));
    REQUIRE(a.got[0].status == Status::success);
  }
}
WEFT_ON_EACH_PORT_AND_SRD(last_word, "destroying a queue pair sends its delayed acknowledgement")

void first_packet(Wire wire) {
  const std::string spec = device_string(wire);
  Side a(spec), b(spec);
  const QueuePair qa = a.queue_pair(), qb = b.queue_pair();
  const Walk walk;
  const Buffer near(a, 64), far(b, 64);
  REQUIRE(qa.modify(to_init(walk)));
  REQUIRE(qb.modify(to_init(walk)));
  if (refuses_steps(a, qa)) return;
  REQUIRE(qa.modify(to_rtr(walk, qb, walk.psn_b)));
  REQUIRE(qa.modify(to_rts(walk, walk.psn_a)));
  const Sge out = near.sge(0, 8);
  near.word(0) = 77;
  REQUIRE(qa.post_send({.id = 1,
                        .opcode = Opcode::write,
                        .sges = {&out, 1},
                        .remote_address = far.address(),
                        .rkey = far.region.rkey()}));
  const Deadline soon(Duration::from_ms(50));
  const bool counted = b.counts("rx_wrong_state");
  REQUIRE(pump_until({&a, &b},
                     [&] { return counted ? b.counter("rx_wrong_state") > 0 : soon.passed(); }));
  CHECK(far.word(0) == 0);  // INIT: no packet is processed
  REQUIRE(qb.modify(to_rtr(walk, qa, walk.psn_a)));
  REQUIRE(pump_until({&a, &b}, [&] { return !a.got.empty(); }));
  CHECK(a.got[0].status == Status::success);
  CHECK(far.word(0) == 77);
  if (!is_rxe(b)) CHECK(saw_event(b.device, EventType::comm_established));
}
WEFT_ON_EACH_PORT(first_packet, "INIT ignores packets and RTR answers them (C-STATE-60)")

// Also where the library moves queue pairs to ERR for the device, and doing so for the first one
// polls the failures of the others.
void neighbours_fail(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 4096), far(p.b, 4096);
  const QueuePair other = p.a.queue_pair(), far_other = p.b.queue_pair();
  connect(other, far_other);
  const Sge word = near.sge(0, 8);
  const RKey wrong{far.region.rkey().value ^ 0x10};
  for (const QueuePair& qp : {p.qa, other})
    REQUIRE(qp.post_send({.opcode = Opcode::read,
                          .sges = {&word, 1},
                          .remote_address = far.address(),
                          .rkey = wrong}));
  const int64_t later = clock_ns() + 100'000'000;  // both have most likely failed by then
  REQUIRE(pump_until({&p.b}, [&] { return clock_ns() > later; }));
  Completion c;
  std::multiset<QpNum> failed;
  for (const Deadline limit; failed.size() < 2 && !limit.passed();)
    if (p.a.cq.poll({&c, 1}) == 1) failed.insert(c.qp);
  CHECK(failed == std::multiset<QpNum>{p.qa.number(), other.number()});
  CHECK(p.qa.state() == QpState::err);
  CHECK(other.state() == QpState::err);
}
WEFT_ON_EACH_PORT(neighbours_fail, "queue pairs of one completion queue fail independently")

}  // namespace
}  // namespace weft
