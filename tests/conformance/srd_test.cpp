// SPDX-License-Identifier: BSD-3-Clause
// SRD through the public API, over every port, also with losses: each operation, one queue pair to
// many, a target that never polls, two processes. Errors: srd_errors_test.cpp.
#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/conformance/peer_process.hpp"
#include "tests/conformance/srd_nodes.hpp"

using namespace weft;
using namespace weft::test;

namespace {

void perform_all(Two& t) {
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
void every_operation(Wire wire) {
  Two t(wire);
  perform_all(t);
}
WEFT_ON_SRD_WIRES(every_operation, "SRD: every operation, every size")

TEST_CASE("SRD over shm: SENDs, WRITEs and answers to READs go by reference where the port can") {
  Two t("srd+shm:srd_reference,shm.by_reference=1");
  if (!t.a.side.device.attributes().by_reference) WEFT_SKIP("by reference", "pulls are forbidden");
  constexpr size_t kSize = 300'000;
  fill(t.a.memory.bytes(0, kSize), 5);
  const Sge out = t.a.memory.sge(0, kSize), in = t.a.memory.sge(500'000, kSize);
  const auto pulled = [](const Node& node) { return node.side.counter("rx_by_reference"); };
  // Until the sides of a link have received each other's answers, which they poll for between
  // other work, payload is copied: so requests are repeated until some payload is pulled.
  const auto until_pulled = [&](const Node& by, const auto& act) {
    const uint64_t before = pulled(by);
    const Deadline deadline;
    do {
      act();
    } while (pulled(by) == before && !deadline.passed());
    CHECK(pulled(by) > before);
  };
  until_pulled(t.b, [&] {
    t.b.expect(1, 0, kSize);
    REQUIRE(t.finish(t.request(Opcode::send, 2, {&out, 1}, 0)).status == Status::success);
    CHECK(t.wait(t.b).byte_count == kSize);
    CHECK(equal(t.a.memory.bytes(0, kSize), t.b.memory.bytes(0, kSize)));
  });
  until_pulled(t.b, [&] {
    std::memset(t.b.memory.at(400'000), 0, kSize);
    REQUIRE(t.finish(t.request(Opcode::write, 3, {&out, 1}, 400'000)).status == Status::success);
    CHECK(equal(t.a.memory.bytes(0, kSize), t.b.memory.bytes(400'000, kSize)));
  });
  CHECK(pulled(t.a) == 0);
  until_pulled(t.a, [&] {
    std::memset(t.a.memory.at(500'000), 0, kSize);
    REQUIRE(t.finish(t.request(Opcode::read, 4, {&in, 1}, 400'000)).status == Status::success);
    CHECK(equal(t.a.memory.bytes(0, kSize), t.a.memory.bytes(500'000, kSize)));
  });
  for (const Node* node : {&t.a, &t.b}) CHECK(node->side.counter("rx_pull_failed") == 0);
}

void under_hpcc(Wire wire) {
  Two t(device_string(wire) + ",cc=hpcc");
  perform_all(t);
  // No switch writes digests here: it has its own queue, and says so.
  CHECK(t.a.side.counter("acks_without_telemetry") > 0);
  CHECK(t.b.side.counter("rx_bad_payload") == 0);
}
WEFT_ON_WIRE(under_hpcc, "SRD: every operation under hpcc", srd_udp)
WEFT_ON_WIRE(under_hpcc, "SRD: every operation under hpcc", srd_shm)

void one_to_many(Wire wire) {
  const std::string spec = device_string(wire);
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
WEFT_ON_SHARED_SRD(one_to_many, "SRD: one queue pair reaches many")
WEFT_ON_WIRE(one_to_many, "SRD: one queue pair reaches many", srd_udp_lossy)
WEFT_ON_WIRE(one_to_many, "SRD: one queue pair reaches many", srd_shm_lossy)

// The target's thread makes the progress; its application sleeps.
void srd_sleeping_target(Wire wire) {
  Two t(wire);
  const Sge out = t.a.memory.sge(0, 100'000);
  fill(t.a.memory.bytes(0, 100'000), 3);
  REQUIRE(t.a.qp.post_send(t.request(Opcode::write, 1, {&out, 1}, 0)));
  Completion c;
  REQUIRE(t.a.side.cq.wait({&c, 1}, Duration::from_s(20)) == 1);
  CHECK(c.status == Status::success);
  CHECK(equal(t.a.memory.bytes(0, 100'000), t.b.memory.bytes(0, 100'000)));
}
WEFT_ON_SRD_WIRES(srd_sleeping_target, "SRD: a WRITE lands though the target sleeps")

// Delayed acknowledgements do not delay a sender, even one message at a time.
void seldom_acknowledged(Wire wire) {
  Two t(device_string(wire) + ",ack_every=8");
  fill(t.a.memory.bytes(0, 100'000), 5);
  const Sge out = t.a.memory.sge(0, 100'000), few = t.a.memory.sge(0, 8);
  for (int i = 0; i < 40; ++i) {
    REQUIRE(t.finish(t.request(Opcode::write, 1, {&out, 1}, 0)).status == Status::success);
    REQUIRE(t.finish(t.request(Opcode::read, 2, {&few, 1}, 0)).status == Status::success);
  }
  CHECK(equal(t.a.memory.bytes(0, 100'000), t.b.memory.bytes(0, 100'000)));
  CHECK(t.b.side.counter("tx_acks") < t.b.side.counter("rx_packets"));
  const Result<Device> wrong = Device::open(device_string(wire) + ",ack_every=0");
  REQUIRE(!wrong);
  CHECK(wrong.error().message.find("ack_every") != std::string::npos);
}
WEFT_ON_SRD_PORTS(seldom_acknowledged, "SRD: acknowledgements may wait for each other")
WEFT_ON_LOSSY_SRD(seldom_acknowledged, "SRD: acknowledgements may wait for each other")

// Device::paths(): empty for an unknown peer, all paths once something was sent there.
void paths(Wire wire) {
  Two t(device_string(wire) + ",paths=5,path_policy=oblivious,path_counters=1");
  const bool rails = wire == Wire::srd_udp_rails;
  const size_t count = t.a.side.device.attributes().paths;
  const bool memory = wire == Wire::srd_shm;  // has one path
  // Some may have drawn the same port.
  CHECK((memory ? count == 1 : count >= 3 && count <= (rails ? 10 : 5)));
  const Gid there = t.b.side.device.attributes().gid;
  CHECK(t.a.side.device.paths(there, t.b.qp.number()).empty());
  const Sge out = t.a.memory.sge(0, 100'000);
  for (int i = 0; i < 40; ++i)
    REQUIRE(t.finish(t.request(Opcode::write, 1, {&out, 1}, 0)).status == Status::success);
  const std::vector<PathReport> seen = t.a.side.device.paths(there, t.b.qp.number());
  if (!rails) REQUIRE(seen.size() == count);
  // Each address of ours with each of the peer's, those that share none first.
  const std::vector<Gid> ours = t.a.side.device.attributes().further_gids;
  const std::vector<Gid> theirs = t.b.side.device.attributes().further_gids;
  const auto between = [&](const Gid& from, const Gid& to) {
    return std::any_of(seen.begin(), seen.end(), [&](const PathReport& path) {
      return path.sent > 0 && path.source == from && path.destination == to;
    });
  };
  CHECK(between(t.a.side.device.attributes().gid, there));
  if (rails) CHECK(between(ours.at(0), theirs.at(0)));
  uint64_t sent = 0, lost = 0, used = 0;  // a path that is slow from the first packet on rests
  for (const PathReport& path : seen) {
    used += path.sent > 0;
    sent += path.sent;
    lost += path.lost;
  }
  CHECK(used >= (memory ? 1 : 2));
  const uint64_t packets = 40 * (100'000 / t.a.side.device.attributes().active_mtu);
  CHECK(sent >= packets);
  CHECK(sent <= t.a.side.counter("tx_packets"));
  CHECK((lost > 0) == (t.a.side.counter("tx_retransmits") > 0));
  CHECK(t.b.side.device.paths(there, t.b.qp.number()).empty());
}
WEFT_ON_SRD_PORTS(paths, "SRD: a device tells what it knows of its paths")
WEFT_ON_WIRE(paths, "SRD: a device tells what it knows of its paths", srd_udp_lossy)

void processes(Wire wire) {
  const std::string spec = device_string(wire);
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
WEFT_ON_SRD_PORTS(processes, "SRD: processes that connect() write, read back and verify")
WEFT_ON_LOSSY_SRD(processes, "SRD: processes write, read back and verify")

// Packets longer than a path MTU of RoCE (udp.mtu): every length that fits the interface, a peer
// that sends shorter ones, and what is refused.
constexpr uint32_t kJumboBytes = 300'000;

// WRITE, SEND and READ of `bytes`, compared.
void exchange_jumbo(Two& t, uint32_t bytes) {
  fill(t.a.memory.bytes(0, bytes), bytes);
  const Sge out = t.a.memory.sge(0, bytes), in = t.a.memory.sge(600'000, bytes);
  REQUIRE(t.finish(t.request(Opcode::write, 1, {&out, 1}, 400'000)).status == Status::success);
  CHECK(equal(t.a.memory.bytes(0, bytes), t.b.memory.bytes(400'000, bytes)));
  t.b.expect(2, 0, bytes);
  REQUIRE(t.finish(t.request(Opcode::send, 3, {&out, 1}, 0)).status == Status::success);
  CHECK(t.wait(t.b).byte_count == bytes);
  CHECK(equal(t.a.memory.bytes(0, bytes), t.b.memory.bytes(0, bytes)));
  REQUIRE(t.finish(t.request(Opcode::read, 4, {&in, 1}, 400'000)).status == Status::success);
  CHECK(equal(t.a.memory.bytes(0, bytes), t.a.memory.bytes(600'000, bytes)));
}

TEST_CASE("SRD: packets are as long as udp.mtu says") {
  for (const uint32_t mtu : {1000u, 4097u, 8800u, 9001u, 65'000u}) {
    INFO("udp.mtu=" << mtu);
    Two t("srd+udp:lo,udp.mtu=" + std::to_string(mtu));
    CHECK(t.a.side.device.attributes().active_mtu == mtu);
    for (const uint32_t bytes : {1u, mtu - 1, mtu, mtu + 1, kJumboBytes}) exchange_jumbo(t, bytes);
    const uint64_t before = t.a.side.counter("tx_packets");
    const Sge out = t.a.memory.sge(0, kJumboBytes);
    REQUIRE(t.finish(t.request(Opcode::write, 5, {&out, 1}, 0)).status == Status::success);
    const uint64_t needed = (kJumboBytes + mtu - 1) / mtu;
    const uint64_t sent = t.a.side.counter("tx_packets") - before;
    CHECK(sent >= needed);
    CHECK(sent < 2 * needed + 8);
  }
}

TEST_CASE("SRD: each side of a conversation cuts its messages as it likes") {
  Two t("srd+udp:lo,udp.mtu=8800", "srd+udp:lo");
  exchange_jumbo(t, kJumboBytes);
  Two back("srd+udp:lo", "srd+udp:lo,udp.mtu=8800");
  exchange_jumbo(back, kJumboBytes);
}

void srd_jumbo_refused(const std::string& spec, const std::string& word) {
  const Result<Device> device = Device::open(spec);
  REQUIRE(!device);
  CHECK(device.error().code == Code::invalid_argument);
  CHECK(device.error().message.find(word) != std::string::npos);
}

TEST_CASE("udp.mtu that cannot be is refused, and says what can") {
  srd_jumbo_refused("roce+udp:lo,udp.mtu=3000", "2048");
  srd_jumbo_refused("roce+udp:lo,udp.mtu=8192", "4096");
  srd_jumbo_refused("srd+udp:lo,udp.mtu=255", "256..65000");
  srd_jumbo_refused("srd+udp:lo,udp.mtu=70000", "256..65000");
  const Result<Device> less = Device::open("roce+udp:lo,udp.mtu=512");
  REQUIRE(less);
  CHECK(less->attributes().active_mtu == 512);
}

}  // namespace
