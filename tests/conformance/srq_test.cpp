// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues through the public API: one queue for the queue pairs of several clients,
// its limit event, its sizes, and the protection domain check.
#include "tests/conformance/fixture.hpp"

using namespace weft;
using namespace weft::test;

namespace {

// Clients stream messages to a server with one pool that is smaller than what they send.
void clients(Wire wire) {
  constexpr uint32_t kClients = 4, kReceives = 16, kEach = 200, kSlot = 4096;
  const std::string spec = device_string(wire);
  Side server(spec);
  Buffer target(server, kReceives * kSlot);
  const Result<SharedReceiveQueue> srq =
      server.pd.shared_receive_queue({.max_recv_wr = kReceives, .engine = server.engine});
  REQUIRE(srq);
  const auto post = [&](uint64_t id) {
    const Sge sge = target.sge(id * kSlot, kSlot);
    REQUIRE(srq->post_recv({.id = id, .sges = {&sge, 1}}));
  };
  for (uint64_t id = 0; id < kReceives; ++id) post(id);
  std::vector<std::unique_ptr<Side>> sides;
  std::vector<std::unique_ptr<Buffer>> sources;
  std::vector<QueuePair> from, to;
  for (uint32_t i = 0; i < kClients; ++i) {
    sides.push_back(std::make_unique<Side>(spec));
    sources.push_back(std::make_unique<Buffer>(*sides[i], kSlot));
    from.push_back(sides[i]->queue_pair({.max_send_wr = kEach}));
    to.push_back(server.queue_pair({.shared_receive_queue = *srq}));
    connect(from[i], to[i]);
    fill(sources[i]->bytes(), i);
  }
  std::vector<uint32_t> sent(kClients), got(kClients);
  const Deadline deadline;
  while (!deadline.passed() && got != std::vector<uint32_t>(kClients, kEach)) {
    for (uint32_t i = 0; i < kClients; ++i) {
      const Sge sge = sources[i]->sge(0, 10 + i * 1000);
      if (sent[i] < kEach && from[i].post_send({.sges = {&sge, 1}})) ++sent[i];
      sides[i]->poll();
      for (const Completion& c : sides[i]->got) REQUIRE(c.status == Status::success);
      sides[i]->got.clear();
    }
    server.poll();
    for (const Completion& c : server.got) {
      REQUIRE(c.status == Status::success);
      const auto whose = std::find_if(to.begin(), to.end(),
                                      [&c](const QueuePair& qp) { return qp.number() == c.qp; });
      REQUIRE(whose != to.end());
      const auto i = static_cast<uint32_t>(whose - to.begin());
      REQUIRE(c.byte_count == 10 + i * 1000);
      REQUIRE(equal(sources[i]->bytes(0, c.byte_count), target.bytes(c.id * kSlot, c.byte_count)));
      ++got[i];
      post(c.id);
    }
    server.got.clear();
  }
  CHECK(got == std::vector<uint32_t>(kClients, kEach));
}
WEFT_ON_SHARED_PORTS(clients, "a server's queue pairs share its receives, roce:C-OPS-92")

void runs_low(Wire wire) {
  const std::string spec = device_string(wire);
  Side a(spec), b(spec);
  Buffer source(a, 4096), target(b, 4096);
  const Result<SharedReceiveQueue> srq =
      b.pd.shared_receive_queue({.max_recv_wr = 4, .engine = b.engine});
  REQUIRE(srq);
  const QueuePair from = a.queue_pair(), to = b.queue_pair({.shared_receive_queue = *srq});
  connect(from, to);
  const Sge in = target.sge(0, 64), out = source.sge(0, 8);
  for (uint64_t id = 0; id < 2; ++id) REQUIRE(srq->post_recv({.id = id, .sges = {&in, 1}}));
  REQUIRE(srq->arm_limit(2));
  CHECK(srq->arm_limit(5).error().code == Code::invalid_argument);
  REQUIRE(from.post_send({.sges = {&out, 1}}));
  REQUIRE(pump_until({&a, &b}, [&] { return b.got.size() == 1; }));
  std::optional<AsyncEvent> event;
  while ((event = b.device.next_event()) && event->type != EventType::srq_limit_reached) {
  }
  REQUIRE(event);
  CHECK(event->shared_queue == srq->number());
  CHECK(to.post_recv({.id = 1, .sges = {&in, 1}}).code == Code::invalid_argument);
}
WEFT_ON_SHARED_PORTS(runs_low, "a shared receive queue tells when it runs low, roce:C-OPS-92")

void one_domain(Wire wire) {
  const std::string spec = device_string(wire);
  Side a(spec), other(spec);
  const Result<SharedReceiveQueue> srq = a.pd.shared_receive_queue({.engine = a.engine});
  REQUIRE(srq);
  const Result<ProtectionDomain> second = a.device.protection_domain();
  REQUIRE(second);
  CHECK(second->queue_pair({.send_cq = a.cq, .recv_cq = a.cq, .shared_receive_queue = *srq})
            .error()
            .code == Code::invalid_argument);
  CHECK(
      other.pd.queue_pair({.send_cq = other.cq, .recv_cq = other.cq, .shared_receive_queue = *srq})
          .error()
          .code == Code::invalid_argument);
}
WEFT_ON_SHARED_PORTS(one_domain, "a shared receive queue belongs to one domain, threat:A05")

void srq_sizes(Wire wire) {
  Side a(device_string(wire));
  const SharedReceiveQueue srq =
      *a.pd.shared_receive_queue({.max_recv_wr = 4, .max_recv_sge = 2, .engine = a.engine});
  REQUIRE(srq.arm_limit(3));
  Result<SharedReceiveQueueAttributes> said = srq.query();
  if (!said) FAIL(said.error().message);
  CHECK(said->max_recv_wr >= 4);
  CHECK(said->max_recv_sge >= 2);
  CHECK(said->limit == 3);
  const QueuePair qp = a.queue_pair({.shared_receive_queue = srq});
  CHECK(qp.capacities().max_recv_wr == 0);
}
WEFT_ON_SHARED_PORTS(srq_sizes, "a shared receive queue says what it has")

// Receives that are posted before and after each change arrive in order, none is lost.
void srq_resize(Wire wire) {
  const std::string spec = device_string(wire);
  Side a(spec), b(spec);
  const Buffer source(a, 64), target(b, 64 * 64);
  if (!b.device.attributes().resizes_srq) return;
  const SharedReceiveQueue srq = *b.pd.shared_receive_queue({.max_recv_wr = 3, .engine = b.engine});
  const auto post = [&](uint64_t id) {
    const Sge in = target.sge(id * 64, 64);
    return srq.post_recv({.id = id, .sges = {&in, 1}});
  };
  for (uint64_t id = 0; id < 3; ++id) REQUIRE(post(id));
  CHECK(post(3).code == Code::queue_full);
  CHECK(srq.resize(0).error().code == Code::invalid_argument);
  CHECK(srq.resize(2).error().code == Code::busy);
  REQUIRE(srq.resize(40));
  CHECK(srq.query()->max_recv_wr == 40);
  for (uint64_t id = 3; id < 40; ++id) REQUIRE(post(id));
  CHECK(post(40).code == Code::queue_full);
  REQUIRE(srq.arm_limit(40));
  CHECK(srq.resize(39).error().code == Code::invalid_argument);
  REQUIRE(srq.arm_limit(0));
  const QueuePair from = a.queue_pair(), to = b.queue_pair({.shared_receive_queue = srq});
  connect(from, to);
  fill(source.bytes(), 2);
  const Sge out = source.sge(0, 64);
  for (uint64_t id = 0; id < 40; ++id) {
    REQUIRE(from.post_send({.id = id, .sges = {&out, 1}}));
    REQUIRE(pump_until({&a, &b}, [&] { return b.got.size() == id + 1; }));
    CHECK(b.got[id].id == id);
    CHECK(equal(target.bytes(id * 64, 64), source.bytes()));
    if (id == 35) REQUIRE(srq.resize(4));
  }
}
WEFT_ON_WIRES(srq_resize, "a shared receive queue is resized and keeps its receives", shared_ports)

TEST_CASE("a device without shared receive queues says so") {
  Side srd("srd+udp:lo");
  CHECK(srd.pd.shared_receive_queue({}).error().code == Code::not_supported);
}

}  // namespace
