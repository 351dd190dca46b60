// SPDX-License-Identifier: BSD-3-Clause
// UD and UC through the public API, over every port: delivery, the sender's address, loss,
// duplication and reordering, reuse of buffers after the completion, and connect() for every type
// of queue pair.
#include <cstring>
#include <thread>

#include "tests/conformance/node.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr size_t kUnreliableHeader = kNetworkHeaderLength;
constexpr uint32_t kUnreliableQKey = 0x1234;

// a sends, b receives.
struct Two {
  Node a, b;
  AddressHandle to_b;

  Two(Wire wire, QpType type) : Two(device_string(wire), type) {}
  Two(const std::string& spec, QpType type)
      : a(spec, type),
        b(spec, type),
        to_b(a.side.pd.address_handle({.destination = b.side.device.attributes().gid})) {
    for (Node* const node : {&a, &b}) walk(*node, node == &a ? b : a);
  }
  static void walk(const Node& node, const Node& peer) {
    const bool ud = node.qp.type() == QpType::ud;
    QueuePairAttributes init{.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}};
    QueuePairAttributes rtr{.state = QpState::rtr};
    if (ud) {
      init.qkey = kUnreliableQKey;
    } else {
      init.access = Access::all;
      rtr.path = AddressVector{.destination = peer.side.device.attributes().gid};
      rtr.path_mtu = 1024;
      rtr.dest_qpn = peer.qp.number();
      rtr.rq_psn = Psn{0xFFFFFE};
    }
    REQUIRE(node.qp.modify(init));
    REQUIRE(node.qp.modify(rtr));
    REQUIRE(node.qp.modify({.state = QpState::rts, .sq_psn = Psn{0xFFFFFE}}));
  }
  SendRequest request(Opcode opcode, uint64_t id, std::span<const Sge> sges, size_t remote = 0) {
    SendRequest r = b.request(opcode, id, sges, remote);
    if (a.qp.type() == QpType::ud) {
      r.to = &to_b;
      r.remote_qpn = b.qp.number();
      r.remote_qkey = kUnreliableQKey;
    }
    return r;
  }
  Completion wait(Node& node) { return next_of(node, &node == &a ? b : a); }
};

void datagrams(Wire wire) {
  Two t(wire, QpType::ud);
  const uint32_t mtu = t.a.side.device.attributes().active_mtu;
  for (const uint32_t size : {0u, 1u, 255u, 256u, 1000u, mtu}) {
    INFO(size);
    fill(t.a.memory.bytes(0, size), size + 1);
    t.b.expect(3, 0, kUnreliableHeader + size);
    const Sge out = t.a.memory.sge(0, size);
    SendRequest r = t.request(Opcode::send_with_imm, 5, {&out, 1});
    r.imm = 99;
    REQUIRE(t.a.qp.post_send(r));
    const Completion sent = t.wait(t.a);
    CHECK(sent.id == 5);
    REQUIRE(sent.status == Status::success);
    const Completion got = t.wait(t.b);
    REQUIRE(got.status == Status::success);
    CHECK(got.byte_count == kUnreliableHeader + size);
    CHECK(got.imm_or_key == 99);
    CHECK(got.source_qp == t.a.qp.number());
    CHECK(equal(t.a.memory.bytes(0, size), t.b.memory.bytes(kUnreliableHeader, size)));
    const std::span<const std::byte, kUnreliableHeader> header(t.b.memory.at(), kUnreliableHeader);
    CHECK(sender_of(header).destination == t.a.side.device.attributes().gid);
    // The answer.
    t.a.expect(4, 4096 * 16, 100);
    const AddressHandle back = t.b.side.pd.address_handle(sender_of(header));
    const Sge word = t.b.memory.sge(0, 8);
    REQUIRE(t.b.qp.post_send({.sges = {&word, 1},
                              .to = &back,
                              .remote_qpn = got.source_qp,
                              .remote_qkey = kUnreliableQKey}));
    (void)t.wait(t.b);
    CHECK(t.wait(t.a).byte_count == kUnreliableHeader + 8);
  }
}
WEFT_ON_EACH_PORT(datagrams, "UD: a datagram of each size, and its answer, roce:C-OPS-84")
WEFT_ON_WIRE(datagrams, "UD: a datagram of each size, and its answer", shm_copied)
WEFT_ON_WIRE(datagrams, "UD: a datagram of each size, and its answer", udp_captured)
WEFT_ON_WIRE(datagrams, "UD: a datagram of each size, and its answer", shm_captured)

void messages(Wire wire) {
  Two t(wire, QpType::uc);
  for (const size_t size : {0, 1, 1024, 1025, 40'000}) {
    INFO(size);
    fill(t.a.memory.bytes(0, size), size + 1);
    std::memset(t.b.memory.at(), 0, t.b.memory.size());
    const Sge out = t.a.memory.sge(0, size);
    t.b.expect(1, 0, size);
    t.b.expect(2, 0, 0);
    SendRequest r = t.request(Opcode::send_with_imm, 1, {&out, 1});
    r.imm = 7;
    REQUIRE(t.a.qp.post_send(r));
    CHECK(t.wait(t.a).status == Status::success);
    const Completion sent = t.wait(t.b);
    CHECK(sent.byte_count == size);
    CHECK(sent.imm_or_key == 7);
    CHECK(equal(t.a.memory.bytes(0, size), t.b.memory.bytes(0, size)));
    r = t.request(Opcode::write_with_imm, 2, {&out, 1}, 50'000);
    REQUIRE(t.a.qp.post_send(r));
    CHECK(t.wait(t.a).status == Status::success);
    CHECK(t.wait(t.b).byte_count == size);
    CHECK(equal(t.a.memory.bytes(0, size), t.b.memory.bytes(50'000, size)));
  }
}
WEFT_ON_EACH_PORT(messages, "UC: SEND and WRITE of each size")
WEFT_ON_WIRE(messages, "UC: SEND and WRITE of each size", shm_copied)
WEFT_ON_WIRE(messages, "UC: SEND and WRITE of each size", udp_captured)

// The queue pair that binds a window and takes requests for it is b's.
void windows(Wire wire) {
  Two t(wire, QpType::uc);
  const Buffer far(t.b.side, 64, Access::all | Access::window_bind);
  const Result<MemoryWindow> window = t.b.side.pd.memory_window(WindowType::two, t.b.side.engine);
  REQUIRE(window);
  const WindowBind bind{&*window, &far.region, far.at(), 64, Access::remote_write};
  REQUIRE(
      t.b.qp.post_send({.opcode = Opcode::bind_window, .rkey = window->next_key(), .bind = &bind}));
  CHECK(t.wait(t.b).status == Status::success);
  const Sge out = t.a.memory.sge(0, 64);
  fill(t.a.memory.bytes(0, 64), 3);
  REQUIRE(t.a.qp.post_send({.opcode = Opcode::write,
                            .sges = {&out, 1},
                            .remote_address = far.address(),
                            .rkey = window->rkey()}));
  CHECK(t.wait(t.a).status == Status::success);
  CHECK(pump_until({&t.a.side, &t.b.side},
                   [&] { return equal(t.a.memory.bytes(0, 64), far.bytes()); }));
  // A key that does not exist.
  REQUIRE(t.b.qp.post_send({.opcode = Opcode::local_invalidate, .invalidate = RKey{1}}));
  CHECK(t.wait(t.b).status == Status::mw_bind_error);
  CHECK(t.b.qp.state() == QpState::sqe);
}
WEFT_ON_OUR_PORTS(windows, "UC queue pairs bind memory windows (C-OPS-88)")

// A stream where packets are lost, repeated and reordered: each message that arrives is one that
// was sent, whole. The buffer of a request is written again as soon as it has completed.
void stream(Wire wire, QpType type, uint32_t length) {
  Two t(wire, type);
  constexpr uint64_t kMessages = 400;
  constexpr size_t kSlots = 64;
  const size_t header = type == QpType::ud ? kUnreliableHeader : 0;
  const size_t slot = header + length;
  for (uint64_t i = 0; i < kSlots; ++i) t.b.expect(i, i * slot, slot);
  uint64_t arrived = 0;
  std::vector<std::byte> wanted(length);
  const auto look = [&] {
    t.b.side.poll();
    for (const Completion& c : t.b.side.got) {
      REQUIRE(c.status == Status::success);
      REQUIRE(c.byte_count == slot);
      const std::span<std::byte> got = t.b.memory.bytes(c.id * slot + header, length);
      uint64_t index = 0;
      std::memcpy(&index, got.data(), 8);
      REQUIRE(index < kMessages);
      fill(wanted, index);
      std::memcpy(wanted.data(), &index, 8);
      REQUIRE(equal(wanted, got));
      t.b.expect(c.id, c.id * slot, slot);
      ++arrived;
    }
    t.b.side.got.clear();
  };
  for (uint64_t i = 0; i < kMessages; ++i) {
    fill(t.a.memory.bytes(0, length), i);
    t.a.memory.word(0) = i;
    const Sge out = t.a.memory.sge(0, length);
    REQUIRE(t.a.qp.post_send(t.request(Opcode::send, i, {&out, 1})));
    REQUIRE(t.wait(t.a).status == Status::success);
    look();
  }
  const Deadline quiet(Duration::from_ms(50));
  while (!quiet.passed()) look();
  CHECK(arrived > 0);
}
void datagram_stream(Wire wire) { stream(wire, QpType::ud, 1000); }
void message_stream(Wire wire) { stream(wire, QpType::uc, 3000); }
WEFT_ON_LOSSY_PORTS(datagram_stream, "UD: what arrives is whole")
WEFT_ON_LOSSY_PORTS(message_stream, "UC: what arrives is whole, roce:C-PSN-20")
WEFT_ON_SHARED_PORTS(datagram_stream, "UD: what arrives is whole")
WEFT_ON_SHARED_PORTS(message_stream, "UC: what arrives is whole")

// The receiving application sleeps on its completion queue.
void asleep(Wire wire) {
  Two t(wire, QpType::ud);
  t.b.expect(1, 0, 200);
  std::thread sender([&t] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Sge out = t.a.memory.sge(0, 8);
    (void)t.a.qp.post_send(t.request(Opcode::send, 1, {&out, 1}));
  });
  Completion c;
  CHECK(t.b.side.cq.wait({&c, 1}, Duration::from_s(20)) == 1);
  sender.join();
  CHECK(c.status == Status::success);
}
WEFT_ON_SHARED_PORTS(asleep, "UD: a datagram wakes its receiver")

void made_ready(Wire wire) {
  const QpType type = GENERATE(QpType::uc, QpType::ud);
  const std::string spec = device_string(wire);
  Node a(spec, type), b(spec, type);
  Result<Listener> listener = Listener::listen("127.0.0.1:0");
  REQUIRE(listener);
  const std::string address = "127.0.0.1:" + std::to_string(listener->port());
  Result<Connection> there = Error{Code::bad_state, "nothing yet"};
  std::thread server([&] { there = listener->accept(b.qp); });
  const Result<Connection> here = connect(address, a.qp);
  server.join();
  REQUIRE(here);
  REQUIRE(there);
  b.expect(1, 0, 100);
  const Sge out = a.memory.sge(0, 8);
  const AddressHandle to = a.side.pd.address_handle({.destination = here->peer_gid});
  REQUIRE(a.qp.post_send({.sges = {&out, 1},
                          .to = &to,
                          .remote_qpn = here->peer_qpn,
                          .remote_qkey = ConnectOptions{}.qkey}));
  REQUIRE(pump_until({&a.side, &b.side}, [&] { return !b.side.got.empty(); }));
  CHECK(b.side.got[0].status == Status::success);
}
WEFT_ON_SHARED_PORTS(made_ready, "connect() makes queue pairs of each type ready, roce:C-STATE-56")

void two_types(Wire wire) {
  const std::string spec = device_string(wire);
  Node a(spec, QpType::uc), b(spec, QpType::ud);
  Result<Listener> listener = Listener::listen("127.0.0.1:0");
  REQUIRE(listener);
  const std::string address = "127.0.0.1:" + std::to_string(listener->port());
  Result<Connection> there = Error{Code::bad_state, "nothing yet"};
  std::thread server([&] { there = listener->accept(b.qp, {.limit = Duration::from_s(2)}); });
  const Result<Connection> here = connect(address, a.qp, {.limit = Duration::from_s(2)});
  CHECK(!here);
  if (!here) CHECK(here.error().message.find("type uc") != std::string::npos);
  server.join();
  CHECK(!there);
}
WEFT_ON_SHARED_PORTS(two_types, "connect() refuses queue pairs of two types")

}  // namespace
