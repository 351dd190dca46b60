// SPDX-License-Identifier: BSD-3-Clause
// XRC through the public API: connections between two devices that reach several shared receive
// queues, on each port. A device without XRC refuses it.
#include "tests/conformance/connect_support.hpp"
#include "tests/conformance/fixture.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kXrcSlot = 8192;

// A shared receive queue of an XRC domain, with completions and memory of its own.
struct Queue {
  Queue(const Side& side, const XrcDomain& xrc, uint32_t receives)
      : cq(*side.queue({.capacity = 256})), memory(side, receives * kXrcSlot) {
    Result<SharedReceiveQueue> made = side.pd.shared_receive_queue(
        {.max_recv_wr = receives, .engine = side.engine, .xrc_domain = xrc, .cq = cq});
    if (!made) FAIL(made.error().message);
    srq = *made;
    for (uint64_t id = 0; id < receives; ++id) post(id);
  }
  void post(uint64_t id) {
    const Sge sge = memory.sge(id * kXrcSlot, kXrcSlot);
    REQUIRE(srq.post_recv({.id = id, .sges = {&sge, 1}}));
  }
  std::vector<Completion> poll() {
    Completion some[16];
    return {some, some + cq.poll(some)};
  }

  CompletionQueue cq;
  SharedReceiveQueue srq;
  Buffer memory;
};

// `connections` initiators at a, as many targets at b, all in one XRC domain.
struct World {
  World(Wire wire, uint32_t connections) : World(device_string(wire), wire, connections) {}
  World(const std::string& spec, Wire wire, uint32_t connections) : a(spec), b(spec) {
    const Result<XrcDomain> made = b.device.xrc_domain(b.engine);
    CHECK(made.ok() == b.device.attributes().has_xrc);
    if (!made) {
      CHECK(made.error().code == Code::not_supported);
      CHECK(made.error().message.find("XRC") != std::string::npos);
      return;
    }
    xrc = *made;
    Walk walk;
    if (lossy(wire)) walk.timeout = test_scale() < 1 ? 15 : 12;
    for (uint32_t i = 0; i < connections; ++i) {
      initiators.push_back(a.queue_pair({.type = QpType::xrc_initiator}));
      Result<QueuePair> target = b.pd.queue_pair({.type = QpType::xrc_target, .xrc_domain = xrc});
      if (!target) FAIL(target.error().message);
      targets.push_back(*target);
      connect(initiators[i], targets[i], walk);
    }
  }
  // The next completion of `a`.
  Completion next() {
    if (!pump_until({&a, &b}, [&] { return !a.got.empty(); })) FAIL("no completion");
    const Completion c = a.got.front();
    a.got.erase(a.got.begin());
    return c;
  }
  Completion next(Queue& queue) {
    std::vector<Completion> got;
    if (!pump_until({&a, &b}, [&] { return !(got = queue.poll()).empty(); })) FAIL("no message");
    REQUIRE(got.size() == 1);
    return got[0];
  }

  Side a, b;
  XrcDomain xrc;
  std::vector<QueuePair> initiators, targets;
};

// What a message says of itself.
struct Label {
  uint32_t connection, queue, number, length;
};

void streams(Wire wire) {
  constexpr uint32_t kConnections = 2, kQueues = 3, kEach = 150;
  World w(wire, kConnections);
  if (!w.xrc) return;
  std::vector<std::unique_ptr<Queue>> queues;
  for (uint32_t i = 0; i < kQueues; ++i)
    queues.push_back(std::make_unique<Queue>(w.b, w.xrc, 4 + i));
  Buffer source(w.a, kConnections * 16 * kXrcSlot);
  fill(source.bytes(), 1);
  Random random(5);
  uint32_t sent[kConnections] = {}, done[kConnections] = {}, got = 0;
  uint32_t numbers[kConnections][kQueues] = {}, expected[kConnections][kQueues] = {};
  const Deadline deadline;
  while (!deadline.passed() && (got < kConnections * kEach || done[0] < kEach || done[1] < kEach)) {
    for (uint32_t i = 0; i < kConnections; ++i) {
      if (sent[i] == kEach || sent[i] - done[i] == 16) continue;
      const uint32_t q = random.below(kQueues);
      const Label label{
          i, q, numbers[i][q]++,
          random.one_in(3) ? 16 + random.below(kXrcSlot - 16) : 16 + random.below(64)};
      const size_t at = (i * 16 + sent[i]++ % 16) * kXrcSlot;
      std::memcpy(source.at(at), &label, sizeof label);
      const Sge sge = source.sge(at, label.length);
      SendRequest r{.id = i, .opcode = Opcode::send_with_imm, .imm = q, .sges = {&sge, 1}};
      r.remote_srq = queues[q]->srq.number();
      REQUIRE(w.initiators[i].post_send(r));
    }
    w.a.poll();
    for (const Completion& c : w.a.got) {
      REQUIRE(c.status == Status::success);
      ++done[c.id];
    }
    w.a.got.clear();
    for (uint32_t q = 0; q < kQueues; ++q) {
      for (const Completion& c : queues[q]->poll()) {
        REQUIRE(c.status == Status::success);
        Label label;
        std::memcpy(&label, queues[q]->memory.at(c.id * kXrcSlot), sizeof label);
        REQUIRE(label.queue == q);
        REQUIRE(c.imm_or_key == q);
        REQUIRE(label.connection < kConnections);
        REQUIRE(c.qp == w.targets[label.connection].number());
        REQUIRE(c.byte_count == label.length);
        REQUIRE(label.number == expected[label.connection][q]++);
        queues[q]->post(c.id);
        ++got;
      }
    }
    w.b.poll();
  }
  CHECK(got == kConnections * kEach);
  CHECK(w.b.got.empty());
}
WEFT_ON_EACH_WIRE_AND_SRD(streams, "XRC: messages reach the queues that they name (C-OPS-93)")

void operations(Wire wire) {
  World w(wire, 1);
  if (!w.xrc) return;
  Queue queue(w.b, w.xrc, 2);
  const Buffer near(w.a, 1u << 16), far(w.b, 1u << 16);
  fill(near.bytes(), 3);
  const auto post = [&](Opcode opcode, size_t length, uint64_t id) {
    const Sge sge = near.sge(0, length);
    SendRequest r{.id = id, .opcode = opcode, .imm = 77, .sges = {&sge, 1}};
    r.remote_address = far.address(64);
    r.rkey = far.region.rkey();
    r.compare_add = 5;
    r.remote_srq = queue.srq.number();
    REQUIRE(w.initiators[0].post_send(r));
    const Completion c = w.next();
    CHECK(c.id == id);
    CHECK(c.status == Status::success);
  };
  post(Opcode::write, 20'000, 1);
  CHECK(equal(near.bytes(0, 20'000), far.bytes(64, 20'000)));
  post(Opcode::write_with_imm, 5000, 2);
  const Completion told = w.next(queue);
  CHECK(told.imm_or_key == 77);
  CHECK(told.byte_count == 5000);
  CHECK(has(told.flags, CompletionFlags::rdma_write));
  CHECK(told.qp == w.targets[0].number());
  fill(far.bytes(), 4);
  post(Opcode::read, 20'000, 3);
  CHECK(equal(near.bytes(0, 20'000), far.bytes(64, 20'000)));
  const uint64_t before = far.word(64);
  post(Opcode::fetch_add, 8, 4);
  CHECK(near.word(0) == before);
  CHECK(far.word(64) == before + 5);
  // Each end has its half.
  CHECK(w.targets[0].post_send(SendRequest{}).code == Code::invalid_argument);
  CHECK(w.targets[0].post_recv(RecvRequest{}).code == Code::invalid_argument);
  CHECK(w.initiators[0].post_recv(RecvRequest{}).code == Code::invalid_argument);
}
WEFT_ON_EACH_WIRE(operations, "XRC: WRITE, READ and atomics (C-OPS-93)")

void xrc_refusals(Wire wire) {
  const int kind = GENERATE(0, 1, 2);
  World w(wire, 1);
  if (!w.xrc) return;
  Queue queue(w.b, w.xrc, 1);
  const Result<XrcDomain> other = w.b.device.xrc_domain(w.b.engine);
  REQUIRE(other);
  const Queue foreign(w.b, *other, 1);
  auto gone = std::make_unique<Queue>(w.b, w.xrc, 1);
  uint32_t wrong = foreign.srq.number();
  if (kind == 1) wrong = 0xFEDCBA;
  if (kind == 2) wrong = gone->srq.number();
  gone.reset();
  const Buffer near(w.a, 64);
  const Sge sge = near.sge(0, 8);
  SendRequest r{.id = 1, .sges = {&sge, 1}};
  r.remote_srq = queue.srq.number();
  REQUIRE(w.initiators[0].post_send(r));
  CHECK(w.next().status == Status::success);
  r.remote_srq = wrong;
  REQUIRE(w.initiators[0].post_send(r));
  CHECK(w.next().status == Status::remote_invalid_request);
  CHECK(saw_event(w.b.device, EventType::qp_access_error));
  CHECK(w.targets[0].state() == QpState::err);
}
WEFT_ON_EACH_PORT(xrc_refusals,
                  "XRC: a number that the domain has not ends the connection (C-NAK-43)")

void made_of(Wire wire) {
  const std::string spec = device_string(wire);
  Side a(spec), b(spec);
  if (!a.device.attributes().has_xrc) return;
  const XrcDomain xrc = *a.device.xrc_domain(a.engine), others = *b.device.xrc_domain(b.engine);
  const auto refused = [](const auto& result) {
    return !result && result.error().code == Code::invalid_argument;
  };
  CHECK(refused(a.pd.shared_receive_queue({.engine = a.engine, .xrc_domain = xrc})));
  CHECK(refused(a.pd.shared_receive_queue({.engine = a.engine, .cq = a.cq})));
  CHECK(refused(a.pd.shared_receive_queue({.engine = a.engine, .xrc_domain = xrc, .cq = b.cq})));
  CHECK(refused(a.pd.shared_receive_queue({.engine = a.engine, .xrc_domain = others, .cq = a.cq})));
  CHECK(refused(a.pd.queue_pair({.type = QpType::xrc_target})));
  CHECK(refused(a.pd.queue_pair({.type = QpType::xrc_target, .xrc_domain = others})));
  CHECK(refused(a.pd.queue_pair({.type = QpType::xrc_initiator})));
  CHECK(refused(a.pd.queue_pair({.type = QpType::xrc_initiator, .send_cq = b.cq})));
  CHECK(refused(a.pd.queue_pair({.send_cq = a.cq, .recv_cq = a.cq, .xrc_domain = xrc})));
  const SharedReceiveQueue srq =
      *a.pd.shared_receive_queue({.engine = a.engine, .xrc_domain = xrc, .cq = a.cq});
  CHECK(srq.number() != 0);
  CHECK(srq.number() < 1u << 24);
  CHECK(refused(a.pd.queue_pair({.send_cq = a.cq, .recv_cq = a.cq, .shared_receive_queue = srq})));
  // A target needs no completion queue; the queue goes before it, and the domain before both.
  const QueuePair target = *a.pd.queue_pair({.type = QpType::xrc_target, .xrc_domain = xrc});
  CHECK(target.type() == QpType::xrc_target);
}
WEFT_ON_SHARED_PORTS(made_of, "XRC: what its objects are made of, threat:A05")

TEST_CASE("connect() joins an XRC initiator and a target, which tells its queues' numbers") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const XrcDomain xrc = *e.device.xrc_domain();
  const SharedReceiveQueue srq = *e.pd.shared_receive_queue({.xrc_domain = xrc, .cq = e.cq});
  const QueuePair a = *e.pd.queue_pair({.type = QpType::xrc_initiator, .send_cq = e.cq});
  const QueuePair b = *e.pd.queue_pair({.type = QpType::xrc_target, .xrc_domain = xrc});
  uint64_t words[2] = {77, 0};
  const MemoryRegion region = *e.pd.register_memory(words, sizeof words, Access::all);
  const Sge to = region.sge(8, 8), from = region.sge(0, 8);
  REQUIRE(srq.post_recv({.id = 9, .sges = {&to, 1}}));
  const bool target_listens = GENERATE(true, false);
  const std::vector<std::byte> number = bytes(std::to_string(srq.number()));
  Result<Connection> ra = kNone, rb = kNone;
  connect_both(listener, target_listens ? a : b, target_listens ? b : a, {.private_data = number},
               {.private_data = number}, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  const std::vector<std::byte>& said = ra->peer_data;
  SendRequest r{.id = 1, .sges = {&from, 1}};
  r.remote_srq = static_cast<uint32_t>(
      std::stoul(std::string(reinterpret_cast<const char*>(said.data()), said.size())));
  REQUIRE(a.post_send(r));
  std::vector<Completion> all;
  const Deadline deadline;
  while (all.size() < 2 && !deadline.passed()) {
    Completion some[4];
    const size_t n = e.cq.poll(some);
    all.insert(all.end(), some, some + n);
  }
  REQUIRE(all.size() == 2);
  CHECK(words[1] == 77);
  for (const Completion& c : all) CHECK(c.qp == (c.id == 9 ? b.number() : a.number()));
}

TEST_CASE("connect() tells two XRC initiators that neither can answer") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const QueuePair a = *e.pd.queue_pair({.type = QpType::xrc_initiator, .send_cq = e.cq});
  const QueuePair b = *e.pd.queue_pair({.type = QpType::xrc_initiator, .send_cq = e.cq});
  Result<Connection> ra = kNone, rb = kNone;
  connect_both(listener, a, b, {}, {}, ra, rb);
  REQUIRE(!ra);
  REQUIRE(!rb);
  INFO(ra.error().message << " / " << rb.error().message);
  CHECK(ra.error().message.find("an xrc_initiator talks to an xrc_target") != std::string::npos);
}

}  // namespace
}  // namespace weft::test
