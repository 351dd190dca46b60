// SPDX-License-Identifier: BSD-3-Clause
// XRC: one connection to many shared receive queues. Which queue a request goes to, whose memory it
// may touch, what becomes of one that names a queue it must not, and that all else is as on RC.
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;
using XrcPool = transport::SharedReceives;

constexpr uint32_t kXrcDomain = 7, kOtherXrc = 8;

// An initiator and a target, and queues with completions of their own.
struct Xrc {
  struct Queue {
    transport::CompletionQueue cq{256};
    std::unique_ptr<XrcPool> pool;
  };

  World world;
  Station& station_a = world.add_station();
  Station& station_b = world.add_station();
  Endpoint a, b;
  std::vector<std::unique_ptr<Queue>> queues;

  explicit Xrc(const ConnectOptions& options = {})
      : a(station_a, {.type = QpType::xrc_initiator}),
        b(station_b, {.type = QpType::xrc_target, .xrc_domain = kXrcDomain}) {
    world.cable(station_a, station_b);
    world.connect(a, b, options);
  }
  ~Xrc() {
    for (size_t i = 0; i < queues.size(); ++i) drop(i);
  }

  uint32_t add_queue(uint32_t xrc = kXrcDomain, uint32_t domain = Station::kDomain) {
    queues.push_back(std::make_unique<Queue>());
    Queue& queue = *queues.back();
    queue.pool = std::move(*engine().create_shared_receives(
        domain, {.max_recv_wr = 16, .max_recv_sge = 2}, {xrc, &queue.cq}));
    return queue.pool->number;
  }
  void drop(size_t index) {
    if (queues[index]->pool) engine().withdraw(*queues[index]->pool);
    queues[index]->pool.reset();
  }
  roce::Engine& engine() { return station_b.engine(); }
  void post(size_t queue, uint64_t id, uint32_t length = 8192) {
    const Sge sge = station_b.sge(id * 16384, length);
    const RecvRequest r{id, {&sge, 1}};
    REQUIRE(engine().post_recv(*queues[queue]->pool, {&r, 1}));
  }
  void send(uint32_t srq, Opcode opcode, uint32_t length, uint64_t id = 0) {
    const Sge sge = station_a.sge(0, length);
    SendRequest r;
    r.id = id;
    r.opcode = opcode;
    r.sges = {&sge, 1};
    if (opcode == Opcode::flush) r.sges = {};
    r.flush.length = 8;
    r.imm = 0xABCD0000 | srq;
    r.remote_address = station_b.address_of(600'000);
    r.rkey = RKey{station_b.key()};
    r.remote_srq = srq;
    REQUIRE(a.send(r));
  }
  std::vector<Completion> received(size_t queue) {
    std::vector<Completion> all;
    for (Completion c; queues[queue]->cq.pop({&c, 1}) != 0;) all.push_back(c);
    return all;
  }
  Completion only_received(size_t queue) {
    const std::vector<Completion> all = received(queue);
    return all.size() == 1 ? all[0] : Completion{.status = Status::fatal};
  }
  bool told(EventType type) {
    for (AsyncEvent event; engine().next_event(event);)
      if (event.type == type && event.qp == b.qp().number) return true;
    return false;
  }
  // A packet of the initiator, past the network.
  void inject(uint8_t opcode, uint32_t srq, std::span<const std::byte> payload,
              uint32_t ahead = 0) {
    Forgery f;
    f.bth = {.opcode = opcode, .dest = b.qp().number, .psn = b.qp().res.expected + ahead};
    f.srq = srq;
    f.payload = payload;
    const transport::Path path = path_of(a);
    give(engine(), path, forge(path, f), world.now());
  }
  // The last request failed as one for no queue does.
  void check_refused() {
    CHECK(a.only_sent().status == Status::remote_invalid_request);
    CHECK(b.qp().state == QpState::err);
    CHECK(a.qp().state == QpState::err);
    CHECK(told(EventType::qp_access_error));
    CHECK(station_b.count(Count::access_errors) == 1);
  }
};

TEST_CASE("each request goes to the queue that it names, roce:C-OPS-93 roce:C-OPS-92") {
  ConnectOptions options;
  options.psn_a = start_psn();
  Xrc t(options);
  const uint32_t one = t.add_queue(), two = t.add_queue();
  REQUIRE(one != two);
  fill(t.station_a.at(0), 8192, 5);
  for (uint64_t id = 1; id <= 4; ++id) t.post(id % 2, id);  // 2 and 4 in the first, 1 and 3 there
  for (const uint32_t length : {0u, 100u, 1024u, 5000u}) {
    const bool first = length == 100 || length == 5000;
    t.send(first ? one : two, Opcode::send_with_imm, length);
    REQUIRE(t.world.run());
    CHECK(t.a.only_sent().status == Status::success);
    const Completion got = t.only_received(first ? 0 : 1);
    CHECK(got.status == Status::success);
    CHECK(got.qp == t.b.qp().number);
    CHECK(got.byte_count == length);
    CHECK(got.imm_or_key == (0xABCD0000 | (first ? one : two)));
    CHECK(got.id % 2 == (first ? 0 : 1));
    CHECK(std::memcmp(t.station_a.at(0), t.station_b.at(got.id * 16384), length) == 0);
    CHECK(t.received(first ? 1 : 0).empty());
  }
  CHECK(t.queues[0]->pool->ring.empty());
  CHECK(t.b.received().empty());
  check_quiet(t.station_b);
  check_quiet(t.station_a);
}

TEST_CASE("all operations of RC, roce:C-OPS-93") {
  ConnectOptions options;
  options.access = Access::all | Access::flush_global;
  Xrc t(options);
  const uint32_t srq = t.add_queue();
  t.post(0, 1);
  fill(t.station_a.at(0), 8192, 6);
  t.send(srq, Opcode::write, 5000);
  t.send(srq, Opcode::write_with_imm, 3000);
  REQUIRE(t.world.run());
  CHECK(std::memcmp(t.station_a.at(0), t.station_b.at(600'000), 5000) == 0);
  const Completion told = t.only_received(0);
  CHECK(told.id == 1);
  CHECK(told.byte_count == 3000);
  fill(t.station_b.at(600'000), 8192, 7);
  t.send(srq, Opcode::read, 4500);
  REQUIRE(t.world.run());
  CHECK(std::memcmp(t.station_a.at(0), t.station_b.at(600'000), 4500) == 0);
  t.send(srq, Opcode::fetch_add, 8);
  t.send(srq, Opcode::compare_swap, 8);
  REQUIRE(t.world.run());
  const std::vector<Completion> all = t.a.sent();
  REQUIRE(all.size() == 5);
  for (const Completion& c : all) CHECK(c.status == Status::success);
  // That memory is not registered in its domain.
  t.send(srq, Opcode::flush, 0);
  REQUIRE(t.world.run());
  CHECK(t.a.only_sent().status == Status::remote_access_error);
}

TEST_CASE("a number that is no SRQ of the domain is rejected, roce:C-NAK-43") {
  const Opcode opcode = GENERATE(Opcode::send, Opcode::write, Opcode::read, Opcode::fetch_add);
  Xrc t;
  const uint32_t good = t.add_queue(), foreign = t.add_queue(kOtherXrc);
  t.post(0, 1);
  t.post(1, 2);
  uint32_t wrong = 0;
  SECTION("of no SRQ") { wrong = 0x123456; }
  SECTION("of another domain") { wrong = foreign; }
  SECTION("of no domain") {
    t.queues.push_back(std::make_unique<Xrc::Queue>());
    t.queues[2]->pool = std::move(*t.engine().create_shared_receives(Station::kDomain, {}));
    wrong = t.queues[2]->pool->number;
  }
  SECTION("of one that is gone") {
    wrong = good;
    t.drop(0);
  }
  SECTION("zero") { wrong = 0; }
  t.send(wrong, opcode, 8);
  REQUIRE(t.world.run());
  t.check_refused();
  CHECK(t.received(0).empty());
  CHECK(t.received(1).empty());
  CHECK(all_are(t.station_b.at(600'000), 8, std::byte{0}));
}

TEST_CASE("memory is that of the queue's protection domain, threat:A05") {
  constexpr uint32_t kStrange = 55;
  Xrc t;
  const uint32_t ours = t.add_queue(), strange = t.add_queue(kXrcDomain, kStrange);
  t.send(ours, Opcode::write, 8);
  t.send(strange, Opcode::write, 8);
  REQUIRE(t.world.run());
  const std::vector<Completion> all = t.a.sent();
  REQUIRE(all.size() == 2);
  CHECK(all[0].status == Status::success);
  CHECK(all[1].status == Status::remote_access_error);
}

TEST_CASE("a response is read from the domain of its request, whatever follows, threat:A05") {
  constexpr uint32_t kStrange = 55;
  Xrc t;
  const uint32_t ours = t.add_queue(), strange = t.add_queue(kXrcDomain, kStrange);
  Forgery read;
  read.bth = {.opcode = wire::in_class(wire::OpClass::xrc, wire::kRcReadRequest),
              .dest = t.b.qp().number,
              .psn = t.b.qp().res.expected};
  read.srq = ours;
  read.address = t.station_b.address_of(600'000);
  read.rkey = RKey{t.station_b.key()};
  read.length = 4096;
  Forgery empty_write = read;  // nothing of it touches memory
  empty_write.bth.opcode = wire::in_class(wire::OpClass::xrc, wire::kRcWriteOnly);
  empty_write.bth.psn = read.bth.psn + 4;
  empty_write.srq = strange;
  empty_write.length = 0;
  const transport::Path path = path_of(t.a);
  give(t.engine(), path, forge(path, read), t.world.now());
  give(t.engine(), path, forge(path, empty_write), t.world.now());  // before the answer has left
  drain_transmit(t.engine(), t.world.now());
  CHECK(t.station_b.count(Count::tx_read_responses) == 4);
  CHECK(t.station_b.count(Count::access_errors) == 0);
  CHECK(t.b.qp().state == QpState::rts);
}

TEST_CASE("a message is for one queue from its first packet to its last") {
  Xrc t;
  const uint32_t one = t.add_queue(), two = t.add_queue();
  t.post(0, 1);
  t.post(1, 2);
  const std::vector<std::byte> payload(1024, std::byte{1});
  t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcSendFirst), one, payload);
  CHECK(t.queues[0]->pool->ring.empty());
  t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcSendLast), two, payload);
  CHECK(t.b.qp().state == QpState::err);
  CHECK(t.only_received(0).status == Status::flushed);
  CHECK(t.received(1).empty());
  CHECK(t.queues[1]->pool->ring.size() == 1);
}

TEST_CASE("an SRQ that is withdrawn in the middle of a message") {
  Xrc t;
  const uint32_t one = t.add_queue(), two = t.add_queue();
  t.post(0, 1);
  const std::vector<std::byte> payload(1024, std::byte{1});
  t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcSendFirst), one, payload);
  t.drop(0);
  CHECK(t.b.qp().rq.empty());
  SECTION("what follows is refused") {
    t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcSendMiddle), one, payload);
    CHECK(t.b.qp().state == QpState::err);
  }
  SECTION("also where it names another") {
    t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcSendMiddle), two, payload);
    CHECK(t.b.qp().state == QpState::err);
  }
  SECTION("the target may end first") {
    REQUIRE(t.engine().modify_qp(t.b.qp(), {.state = QpState::err}));
  }
  CHECK(t.received(0).empty());
}

TEST_CASE("an empty SRQ causes RNR NAKs, as on RC, roce:C-NAK-42") {
  ConnectOptions options;
  options.min_rnr_timer = 1;
  Xrc t(options);
  const uint32_t one = t.add_queue(), two = t.add_queue();
  t.post(1, 2);
  t.send(one, Opcode::send, 100);
  t.send(two, Opcode::send, 100);
  t.world.run_for(Duration::from_us(200));
  CHECK(t.station_b.count(Count::tx_rnr_naks) > 1);
  CHECK(t.received(1).empty());  // one connection, one order
  t.post(0, 1);
  REQUIRE(t.world.run());
  CHECK(t.only_received(0).id == 1);
  CHECK(t.only_received(1).id == 2);
  CHECK(t.a.sent().size() == 2);
}

TEST_CASE(
    "the receive of an unfinished message returns to the SRQ when the target is reset or "
    "destroyed") {
  Xrc t;
  const uint32_t one = t.add_queue();
  t.post(0, 1);
  const std::vector<std::byte> payload(1024, std::byte{1});
  t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcSendFirst), one, payload);
  REQUIRE(t.queues[0]->pool->ring.empty());
  if (GENERATE(true, false))
    t.engine().destroy_qp(&t.b.qp());
  else
    REQUIRE(t.engine().modify_qp(t.b.qp(), {.state = QpState::reset}));
  CHECK(t.queues[0]->pool->ring.size() == 1);
}

TEST_CASE("a CNP slows the end that sends, roce:C-CC-103") {
  Xrc x;
  Forgery f;
  f.bth = {.opcode = wire::kCnp, .dest = x.a.qp().number, .becn = true};
  const transport::Path path = path_of(x.b);
  give(x.station_a.engine(), path, forge(path, f), x.world.now());
  CHECK(x.station_a.count(Count::rx_cnps) == 1);
  CHECK(x.station_a.count(Count::rx_wrong_state) == 0);
}

TEST_CASE("each end has one half, roce:C-STATE-60") {
  Xrc t;
  const uint32_t srq = t.add_queue();
  const RecvRequest receive{1, {}};
  CHECK(t.a.recv(receive).code == Code::invalid_argument);
  CHECK(t.b.recv(receive).code == Code::invalid_argument);
  CHECK(t.b.send({}).code == Code::invalid_argument);
  SendRequest wide;
  wide.remote_srq = 1u << 24;
  CHECK(t.a.send(wide).code == Code::invalid_argument);
  // A request to an initiator, an answer to a target.
  Forgery f;
  f.bth = {.opcode = wire::in_class(wire::OpClass::xrc, wire::kRcWriteOnly),
           .dest = t.a.qp().number,
           .psn = t.a.qp().res.expected};
  f.srq = srq;
  const transport::Path path = path_of(t.b);
  give(t.station_a.engine(), path, forge(path, f), t.world.now());
  CHECK(t.station_a.count(Count::rx_wrong_state) == 1);
  t.inject(wire::in_class(wire::OpClass::xrc, wire::kRcAcknowledge), 0, {});
  CHECK(t.station_b.count(Count::rx_wrong_state) == 1);
  t.inject(wire::kRcSendOnly, 0, {});
  CHECK(t.station_b.count(Count::rx_wrong_service) == 1);
}

TEST_CASE("what an XRC queue pair is made of") {
  Xrc t;
  transport::CompletionQueue cq(16);
  const auto make = [&](const transport::QpConfig& config) {
    return t.engine().create_qp(config).ok();
  };
  CHECK(make({.type = QpType::xrc_initiator, .send_cq = &cq}));
  CHECK(make({.type = QpType::xrc_target, .xrc_domain = kXrcDomain}));
  CHECK(!make({.type = QpType::xrc_initiator}));
  CHECK(!make({.type = QpType::xrc_initiator, .send_cq = &cq, .xrc_domain = kXrcDomain}));
  CHECK(!make({.type = QpType::xrc_target}));
  CHECK(!make({.send_cq = &cq, .recv_cq = &cq, .xrc_domain = kXrcDomain}));
  t.add_queue();
  CHECK(!make(
      {.type = QpType::xrc_target, .shared = t.queues[0]->pool.get(), .xrc_domain = kXrcDomain}));
}

}  // namespace
}  // namespace weft::test
