// SPDX-License-Identifier: BSD-3-Clause
// Sizes of queue pairs as granted, and posts that are accepted in part, because a queue is full or
// a request is invalid: accepted requests complete, the rest is refused.
#include <vector>

#include "tests/conformance/fixture.hpp"
#include "weft/post_all.hpp"

namespace weft {
namespace {

using namespace test;

// What the queue took of a list is what completes.
void long_list(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 8}});
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8);
  std::vector<SendRequest> list;
  for (uint64_t i = 0; i < 16; ++i)
    list.push_back({.id = i,
                    .opcode = Opcode::write,
                    .sges = {&out, 1},
                    .remote_address = far.address(),
                    .rkey = far.region.rkey()});
  const PostStatus status = p.qa.post_send(list);
  CHECK(status.accepted >= 8);
  if (status.accepted < 16) CHECK(status.code == Code::queue_full);
  uint64_t id = 0;
  for (const Completion& c : p.wait(p.a, status.accepted)) {
    CHECK(c.status == Status::success);
    CHECK(c.id == id++);
  }
  p.poll_for(Duration::from_ms(2));
  CHECK(p.a.got.empty());
}
WEFT_ON_EACH_PORT(long_list, "of a list that is too long the part that was taken completes")

void full_queues(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 10, .max_recv_wr = 5}});
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8), in = far.sge(0, 8);
  const bool exact = wire != Wire::ibverbs;  // other devices may have more room than was asked for
  const size_t most = exact ? 12 : 4096;
  std::vector<RecvRequest> receives;
  for (uint64_t i = 0; i < most; ++i) receives.push_back({.id = i, .sges = {&in, 1}});
  PostStatus status = p.qb.post_recv(receives);
  CHECK(status.code == Code::queue_full);
  CHECK((exact ? status.accepted == 5 : status.accepted >= 5));
  // Nothing is answered any more, or, by SRD, refused, if a progress thread comes to it in time.
  p.qb.modify({.state = QpState::err}).ok();
  std::vector<SendRequest> sends;
  for (uint64_t i = 0; i < most; ++i) sends.push_back({.id = i, .sges = {&out, 1}});
  status = p.qa.post_send(sends);
  CHECK(status.code == Code::queue_full);
  CHECK((exact ? status.accepted == 10 : status.accepted >= 10));
  REQUIRE(p.qa.modify({.state = QpState::err}));
  const bool confirms = p.a.device.attributes().confirms;
  for (const Completion& c : p.wait(p.a, status.accepted)) {
    INFO("status " << name(c.status));
    const bool refused = is_srd(wire) && c.status == Status::remote_invalid_request;
    CHECK((c.status == Status::flushed || refused || (!confirms && c.status == Status::success)));
  }
}
WEFT_ON_EACH_PORT_AND_SRD(full_queues, "a full queue takes what fits and says so")

// post_send_all(): a request that is wrong, or has no place, keeps all others from being posted.
void all_or_none(Wire wire) {
  Pair p(wire, {.qp = {.max_send_wr = 10}});
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8);
  const SendRequest right{.opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()};
  std::vector<SendRequest> list(11, right);
  if (wire == Wire::ibverbs) {
    CHECK(post_send_all(p.qa, list).code == Code::not_supported);
    return;
  }
  PostStatus status = post_send_all(p.qa, list);
  CHECK(status.code == Code::queue_full);
  CHECK(status.accepted == 0);
  list.pop_back();
  list.back().opcode = Opcode::write_add;
  status = post_send_all(p.qa, list);
  CHECK(status.code == Code::invalid_argument);
  CHECK(status.accepted == 0);
  list.back() = right;
  status = post_send_all(p.qa, list);
  CHECK(status);
  CHECK(status.accepted == 10);
  for (const Completion& c : p.wait(p.a, 10)) CHECK(c.status == Status::success);
  REQUIRE(p.qa.modify({.state = QpState::err}));
  CHECK(post_send_all(p.qa, std::vector<SendRequest>(11, right)).accepted == 11);  // flushed
  for (const Completion& c : p.wait(p.a, 11)) CHECK(c.status == Status::flushed);
}
WEFT_ON_EACH_PORT(all_or_none, "post_send_all posts all requests or none")

void wrong_in_the_middle(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64);
  const std::vector<Sge> right(1, near.sge(0, 8)), too_many(5, near.sge(0, 8));
  REQUIRE(p.qa.modify({.state = QpState::err}));
  const SendRequest sends[] = {
      {.id = 1, .sges = right}, {.id = 2, .sges = too_many}, {.id = 3, .sges = right}};
  const RecvRequest receives[] = {
      {.id = 11, .sges = right}, {.id = 12, .sges = too_many}, {.id = 13, .sges = right}};
  for (const PostStatus& status : {p.qa.post_send(sends), p.qa.post_recv(receives)}) {
    CHECK(status.code == Code::invalid_argument);
    CHECK(status.accepted == 1);
  }
  std::vector<uint64_t> ids;
  for (const Completion& c : p.wait(p.a, 2)) {
    CHECK(c.status == Status::flushed);
    ids.push_back(c.id);
  }
  CHECK(ids[0] + ids[1] == 12);
  p.poll_for(Duration::from_ms(2));
  CHECK(p.a.got.empty());
}
WEFT_ON_EACH_PORT(wrong_in_the_middle,
                  "of a list with a wrong request the part before it completes")

void granted(Wire wire) {
  const Side side(device_string(wire));
  const QueuePair qp = side.queue_pair({.max_send_wr = 20,
                                        .max_recv_wr = 30,
                                        .max_send_sge = 3,
                                        .max_recv_sge = 2,
                                        .max_inline = 16});
  const QueuePairCapacities sizes = qp.capacities();
  CHECK(sizes.max_send_wr >= 20);
  CHECK(sizes.max_recv_wr >= 30);
  CHECK(sizes.max_send_sge >= 3);
  CHECK(sizes.max_recv_sge >= 2);
  CHECK(sizes.max_inline >= 16);
}
WEFT_ON_EACH_PORT_AND_SRD(granted, "a queue pair says which sizes it has")

// As many as it says are taken, and not one more.
void granted_exactly(Wire wire) {
  const Side side(device_string(wire));
  const QueuePair qp = side.queue_pair({.max_send_wr = 5, .max_recv_wr = 7});
  REQUIRE(qp.modify(to_init()));
  const Buffer memory(side, 64);
  const Sge sge = memory.sge(0, 8);
  uint32_t taken = 0;
  while (qp.post_recv({.id = taken, .sges = {&sge, 1}})) ++taken;
  CHECK(taken == qp.capacities().max_recv_wr);
}
WEFT_ON_OUR_PORTS(granted_exactly, "a queue pair takes as many receives as it says")
WEFT_ON_SRD_PORTS(granted_exactly, "a queue pair takes as many receives as it says")

void no_receives(Wire wire) {
  Pair p(wire, {.walk = {.rnr_retry = 1}, .qp = {.max_recv_wr = 0}});
  CHECK(p.qb.capacities().max_recv_wr == 0);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge sge = far.sge(0, 8), out = near.sge(0, 8);
  CHECK(p.qb.post_recv({.sges = {&sge, 1}}).code == Code::queue_full);
  fill(near.bytes(), 1);
  REQUIRE(p.qa.post_send({.id = 1,
                          .opcode = Opcode::write,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  CHECK(p.next(p.a).status == Status::success);
  CHECK(equal(near.bytes(0, 8), far.bytes(0, 8)));
  REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  CHECK(p.next(p.a).status == Status::rnr_retry_exceeded);
}
WEFT_ON_OUR_PORTS(no_receives, "a queue pair without receives takes WRITEs and no SENDs")

}  // namespace
}  // namespace weft
