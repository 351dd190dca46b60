// SPDX-License-Identifier: BSD-3-Clause
// The statuses that an EFA device knows (efadv_* of rdma-core), as far as they have
// a meaning here: each is provoked, belongs to its request, and the queue pair goes on.
// lib/wire/SRD.md has the table of what is what.
#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

struct Two : SrdTwo {
  using SrdTwo::SrdTwo;
  Completion wait() {
    std::vector<Completion> all;
    REQUIRE(world.run_until([&] {
      for (const Completion& c : a.sent()) all.push_back(c);
      return !all.empty();
    }));
    REQUIRE(all.size() == 1);
    return all[0];
  }
  Completion finish(const SendRequest& r) {
    REQUIRE(a.post(b, r));
    return wait();
  }
  // Nothing is broken: the next request goes through on both queue pairs as they are.
  void goes_on() {
    const Sge out = a.sge(0, 8);
    CHECK(finish(request(Opcode::write, 99, {&out, 1})).status == Status::success);
    CHECK(a.qp().state == QpState::rts);
    CHECK(b.qp().state == QpState::rts);
  }
  void expect(const SendRequest& r, Status status, uint16_t reason) {
    const Completion c = finish(r);
    CHECK(c.id == r.id);
    CHECK(name(c.status) == name(status));
    CHECK(c.vendor_error == reason);
    goes_on();
  }
  // The path is cut in both directions, or whole again.
  void cut(bool now) {
    middleware::FaultOptions faults;
    if (now) faults.blackhole = middleware::FaultDirection::both;
    b.life().fault->change(faults);
  }
};

uint16_t reason(wire::SrdReason why) { return static_cast<uint16_t>(why); }

}  // namespace

TEST_CASE("EFA status FLUSHED: requests and receives posted when the queue pair goes to ERR") {
  Two t;
  t.cut(true);
  const Sge out = t.a.sge(0, 8);
  REQUIRE(t.a.post(t.b, t.request(Opcode::write, 1, {&out, 1})));
  t.world.run_for(Duration::from_ms(1));
  QueuePairAttributes change;
  change.state = QpState::err;
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  CHECK(t.wait().status == Status::flushed);
  for (const QpState state : {QpState::reset, QpState::init, QpState::rtr, QpState::rts}) {
    change.state = state;
    REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  }
  t.cut(false);
  t.goes_on();
}

TEST_CASE("EFA statuses UNSUPPORTED_OP, INVALID_AH, BAD_LENGTH: returned by post_send") {
  Two t;
  const Sge out = t.a.sge(0, 8);
  SendRequest r = t.request(Opcode::send_with_invalidate, 1, {&out, 1});
  CHECK(t.a.engine().post_send(t.a.qp(), {&r, 1}, Instant{}).code == Code::invalid_argument);
  r = t.request(Opcode::write, 1, {&out, 1});  // no destination
  CHECK(t.a.engine().post_send(t.a.qp(), {&r, 1}, Instant{}).code == Code::invalid_argument);
  const Sge huge[] = {t.a.sge(0, UINT32_MAX), t.a.sge(0, 8)};
  r = t.request(Opcode::write, 1, huge);
  CHECK(t.a.post(t.b, r).code == Code::invalid_argument);
  t.goes_on();
}

TEST_CASE("EFA statuses INVALID_LKEY, BAD_ADDRESS, BAD_DEST_QPN, BAD_LENGTH of the remote, RNR") {
  Two t;
  const Sge out = t.a.sge(0, 200);
  const Sge foreign{t.a.at(0), 200, LKey{t.a.key() ^ 1}};
  t.expect(t.request(Opcode::write, 1, {&foreign, 1}), Status::local_protection_error, 0);
  SendRequest r = t.request(Opcode::write, 2, {&out, 1});
  r.rkey.value ^= 1;
  t.expect(r, Status::remote_access_error, reason(wire::SrdReason::access));

  QueuePairAttributes change;
  change.dest_qpn = QpNum{t.b.number().value ^ 1};
  change.path = AddressVector{.destination = t.b.host().address()};
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  r = t.request(Opcode::write, 3, {&out, 1});
  REQUIRE(t.a.engine().post_send(t.a.qp(), {&r, 1}, t.world.network.now()));
  t.a.life().kick();
  const Completion absent = t.wait();
  CHECK(absent.status == Status::remote_invalid_request);
  CHECK(absent.vendor_error == reason(wire::SrdReason::no_queue_pair));
  t.goes_on();

  REQUIRE(t.b.recv(1, t.b.sge(0, 100)));
  t.expect(t.request(Opcode::send, 4, {&out, 1}), Status::remote_invalid_request,
           reason(wire::SrdReason::length));
  const Sge small = t.a.sge(0, 100);
  CHECK(t.finish(t.request(Opcode::send, 5, {&small, 1})).status == Status::success);
  change = {};
  change.rnr_retry = uint8_t{1};
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  t.expect(t.request(Opcode::send, 6, {&small, 1}), Status::rnr_retry_exceeded,
           reason(wire::SrdReason::no_receive));
}

TEST_CASE("EFA status ABORT of the remote: the peer has restarted in the middle") {
  Two t;
  t.goes_on();
  t.b.restart();
  const Sge out = t.a.sge(0, 8);
  CHECK(t.finish(t.request(Opcode::write, 1, {&out, 1})).status == Status::remote_aborted);
  t.goes_on();
}

TEST_CASE("EFA statuses UNREACH_REMOTE, UNRESP_REMOTE: peer never reached, and reached before") {
  SrdOptions o;
  o.config.dead_peer_timeout = Duration::from_ms(50);
  Two t(o);
  const Sge out = t.a.sge(0, 8);
  for (const uint16_t reached_before : {uint16_t{0}, uint16_t{1}}) {
    t.cut(true);
    const Completion c = t.finish(t.request(Opcode::write, 1, {&out, 1}));
    CHECK(c.status == Status::retry_exceeded);
    CHECK(c.vendor_error == reached_before);
    t.cut(false);
    t.goes_on();
  }
}

TEST_CASE(
    "a peer that is reachable again within the dead peer timeout is not lost, after long round "
    "trips") {
  SrdOptions o;
  o.config.paths = 1;
  o.config.dead_peer_timeout = Duration::from_s(5);
  o.link.delay = Duration::from_ms(4);
  Two t(o);
  t.goes_on();
  t.cut(true);
  const Sge out = t.a.sge(0, 8);
  REQUIRE(t.a.post(t.b, t.request(Opcode::write, 1, {&out, 1})));
  t.world.run_for(Duration::from_ms(4200));
  t.cut(false);
  CHECK(t.wait().status == Status::success);
}

TEST_CASE("EFA status UNKNOWN_PEER: post_send fails when all peers of a device are in use") {
  SrdOptions o;
  o.config.max_peers = 1;
  Two t(o);
  t.goes_on();
  QueuePairAttributes change;
  change.path = AddressVector{.destination = Gid::from_ipv4(10, 9, 9, 9)};
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  const Sge out = t.a.sge(0, 8);
  const SendRequest r = t.request(Opcode::write, 1, {&out, 1});
  CHECK(t.a.engine().post_send(t.a.qp(), {&r, 1}, t.world.network.now()).code == Code::no_memory);
  t.goes_on();
}
