// SPDX-License-Identifier: BSD-3-Clause
// Posts that are accepted in part, because a queue is full or a request is invalid: accepted
// requests complete, the rest is refused.
#include <vector>

#include "tests/conformance/fixture.hpp"

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
  p.qb.modify({.state = QpState::err}).ok();  // nothing is answered any more
  std::vector<SendRequest> sends;
  for (uint64_t i = 0; i < most; ++i) sends.push_back({.id = i, .sges = {&out, 1}});
  status = p.qa.post_send(sends);
  CHECK(status.code == Code::queue_full);
  CHECK((exact ? status.accepted == 10 : status.accepted >= 10));
  REQUIRE(p.qa.modify({.state = QpState::err}));
  const bool confirms = p.a.device.attributes().confirms;
  for (const Completion& c : p.wait(p.a, status.accepted))
    CHECK((c.status == Status::flushed || (!confirms && c.status == Status::success)));
}
WEFT_ON_EACH_PORT_AND_SRD(full_queues, "a full queue takes what fits and says so")

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

}  // namespace
}  // namespace weft
