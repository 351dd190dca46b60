// SPDX-License-Identifier: BSD-3-Clause
// SRD through the public API, over sockets and shared memory, also with losses: each operation, one
// queue pair to many, programs that were written for connected queue pairs, a target that never
// polls, and two processes.
#include <cstring>
#include <thread>

#include "tests/conformance/node.hpp"
#include "tests/conformance/peer_process.hpp"

using namespace weft;
using namespace weft::test;

#define SRD_ON_EACH_PORT(body, text) \
  WEFT_ON_WIRE(body, text, udp)      \
  WEFT_ON_WIRE(body, text, shm)
#define SRD_ON_LOSSY_PORTS(body, text) \
  WEFT_ON_WIRE(body, text, udp_lossy)  \
  WEFT_ON_WIRE(body, text, shm_lossy)

namespace {

std::string spec_of(Wire wire) {
  std::string spec = device_string(wire);
  return spec.replace(0, 4, "srd");
}

struct SrdNode : Node {
  explicit SrdNode(const std::string& spec, size_t size = 1u << 20)
      : Node(spec, QpType::srd, size) {
    for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
      QueuePairAttributes change;
      change.state = state;
      if (state == QpState::init) change.access = Access::all;
      REQUIRE(qp.modify(change));
    }
  }
};

struct Two {
  SrdNode a, b;
  AddressHandle to;
  explicit Two(const std::string& spec) : a(spec), b(spec), to(b.handle()) {}
  explicit Two(Wire wire) : Two(spec_of(wire)) {}

  SendRequest request(Opcode opcode, uint64_t id, std::span<const Sge> sges, size_t remote) const {
    SendRequest r = b.request(opcode, id, sges, remote);
    r.to = &to;
    r.remote_qpn = b.qp.number();
    return r;
  }
  Completion wait(Node& node) { return next_of(node, &node == &a ? b : a); }
  Completion finish(const SendRequest& r) {
    REQUIRE(a.qp.post_send(r));
    return wait(a);
  }
};

void every_operation(Wire wire) {
  Two t(wire);
  for (const size_t size : {0, 1, 8, 100, 4096, 5000, 300'000}) {
    INFO(size);
    fill(t.a.memory.bytes(0, size), size + 1);
    const Sge out = t.a.memory.sge(0, size);
    t.b.expect(5, 0, size);
    SendRequest send = t.request(Opcode::send_with_imm, 1, {&out, 1}, 0);
    send.imm = 77;
    send.imm_high = 88;
    REQUIRE(t.finish(send).status == Status::success);
    const Completion got = t.wait(t.b);
    CHECK(got.byte_count == size);
    CHECK(got.imm_or_key == 77);
    CHECK(got.imm_high == 88);
    CHECK(got.source_qp == t.a.qp.number());
    CHECK(t.b.side.device.peer_address(got.source_peer) == t.a.side.device.attributes().gid);
    CHECK(equal(t.a.memory.bytes(0, size), t.b.memory.bytes(0, size)));
    REQUIRE(t.finish(t.request(Opcode::write, 2, {&out, 1}, 400'000)).status == Status::success);
    CHECK(equal(t.a.memory.bytes(0, size), t.b.memory.bytes(400'000, size)));
    const Sge in = t.a.memory.sge(500'000, size);
    REQUIRE(t.finish(t.request(Opcode::read, 3, {&in, 1}, 400'000)).status == Status::success);
    CHECK(equal(t.a.memory.bytes(0, size), t.a.memory.bytes(500'000, size)));
  }
  const Sge word = t.a.memory.sge(0, 8);
  t.b.memory.word(64) = 10;
  SendRequest add = t.request(Opcode::fetch_add, 4, {&word, 1}, 64);
  add.compare_add = 3;
  REQUIRE(t.finish(add).status == Status::success);
  CHECK(t.a.memory.word(0) == 10);
  SendRequest swap = t.request(Opcode::compare_swap, 5, {&word, 1}, 64);
  swap.compare_add = 13;
  swap.swap = 99;
  REQUIRE(t.finish(swap).status == Status::success);
  CHECK(t.b.memory.word(64) == 99);
  const Sge many = t.a.memory.sge(0, 40'000);
  std::memset(t.a.memory.at(), 0, 40'000);
  std::memset(t.b.memory.at(), 0, 40'000);
  for (size_t i = 0; i < 5000; ++i) t.a.memory.word(8 * i) = i;
  SendRequest sum = t.request(Opcode::write_add, 6, {&many, 1}, 0);
  sum.element = Element::int64;
  for (int i = 0; i < 3; ++i) REQUIRE(t.finish(sum).status == Status::success);
  for (size_t i = 0; i < 5000; ++i) REQUIRE(t.b.memory.word(8 * i) == 3 * i);
}
SRD_ON_EACH_PORT(every_operation, "SRD: every operation, every size")
SRD_ON_LOSSY_PORTS(every_operation, "SRD: every operation, every size")
WEFT_ON_WIRE(every_operation, "SRD: every operation, every size", shm_copied)
WEFT_ON_WIRE(every_operation, "SRD: every operation, every size", udp_captured)

void one_to_many(Wire wire) {
  const std::string spec = spec_of(wire);
  SrdNode hub(spec);
  std::vector<std::unique_ptr<SrdNode>> nodes;
  constexpr uint64_t kNodes = 8, kEach = 50;
  for (uint64_t i = 0; i < kNodes; ++i) nodes.push_back(std::make_unique<SrdNode>(spec, 4096));
  const auto turn = [&] {
    hub.side.poll();
    for (auto& node : nodes) node->side.poll();
  };
  uint64_t posted = 0, done = 0, got = 0;
  for (auto& node : nodes)
    for (uint64_t r = 0; r < kEach; ++r) node->expect(r, 0, 8);
  const Deadline deadline;
  while ((done < kNodes * kEach || got < kNodes * kEach) && !deadline.passed()) {
    while (posted < kNodes * kEach && posted - done < 64) {
      Node& to = *nodes[posted % kNodes];
      hub.memory.word(8 * (posted % 64)) = posted;
      const Sge sge = hub.memory.sge(8 * (posted % 64), 8);
      const AddressHandle handle = to.handle();
      REQUIRE(hub.qp.post_send({.sges = {&sge, 1}, .to = &handle, .remote_qpn = to.qp.number()}));
      ++posted;
    }
    turn();
    for (const Completion& c : hub.side.got) REQUIRE(c.status == Status::success);
    done += hub.side.got.size();
    hub.side.got.clear();
    for (auto& node : nodes) {
      got += node->side.got.size();
      node->side.got.clear();
    }
  }
  CHECK(done == kNodes * kEach);
  CHECK(got == kNodes * kEach);
}
SRD_ON_EACH_PORT(one_to_many, "SRD: one queue pair reaches many")
SRD_ON_LOSSY_PORTS(one_to_many, "SRD: one queue pair reaches many")

// The target's thread makes the progress; its application sleeps.
void sleeping_target(Wire wire) {
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 100'000);
  fill(t.a.memory.bytes(0, 100'000), 3);
  REQUIRE(t.a.qp.post_send(t.request(Opcode::write, 1, {&out, 1}, 0)));
  Completion c;
  REQUIRE(t.a.side.cq.wait({&c, 1}, Duration::from_s(20)) == 1);
  CHECK(c.status == Status::success);
  CHECK(equal(t.a.memory.bytes(0, 100'000), t.b.memory.bytes(0, 100'000)));
}
SRD_ON_EACH_PORT(sleeping_target, "SRD: a WRITE lands though the target sleeps")

void errors(Wire wire) {
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 10'000);
  SendRequest bad = t.request(Opcode::write, 1, {&out, 1}, 0);
  bad.rkey.value ^= 4;
  CHECK(t.finish(bad).status == Status::remote_access_error);
  bad = t.request(Opcode::write, 2, {&out, 1}, 0);
  bad.remote_qpn.value ^= 1;
  CHECK(t.finish(bad).status == Status::remote_invalid_request);
  bad = t.request(Opcode::send, 3, {&out, 1}, 0);
  bad.to = nullptr;
  CHECK(t.a.qp.post_send(bad).code == Code::invalid_argument);
  CHECK(t.finish(t.request(Opcode::write, 4, {&out, 1}, 0)).status == Status::success);
  CHECK(t.a.qp.state() == QpState::rts);
}
SRD_ON_EACH_PORT(errors, "SRD: an error belongs to its request")

void processes(Wire wire) {
  const std::string spec = spec_of(wire);
  PeerProcess a(spec, 1), b(spec, 1);
  a.go(0, "127.0.0.1:" + std::to_string(b.ports[0]), 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  a.stop();
  const PeerProcess::Report report = a.report(0);
  CHECK(report.status == "success");
  CHECK(report.rounds > 10);
  CHECK(a.join() == 0);
  b.stop();
  CHECK(b.join() == 0);
}
SRD_ON_EACH_PORT(processes, "SRD: processes write, read back and verify; connect() works too")
SRD_ON_LOSSY_PORTS(processes, "SRD: processes write, read back and verify")

}  // namespace
