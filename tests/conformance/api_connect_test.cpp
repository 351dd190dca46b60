// SPDX-License-Identifier: BSD-3-Clause
// connect() and Listener through the public API: blocking and in one thread, with private data, MTU
// negotiation, wrong arguments, many at once. Misbehaving peers: api_connect_hostile_test.cpp.
// Rules of the transitions that connect() makes: //= roce:C-STATE-54
#include <poll.h>

#include "tests/conformance/connect_support.hpp"
#include "tests/support/catch.hpp"

namespace weft {

using namespace test;

TEST_CASE("connect and accept walk both sides to RTS and exchange private data (C-STATE-54)") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const QueuePair a = e.queue_pair();
  const QueuePair b = e.queue_pair();
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, a, b, {.private_data = bytes("from a")}, {.private_data = bytes("from b")},
               ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(a.state() == QpState::rts);
  CHECK(b.state() == QpState::rts);
  CHECK(ra->peer_data == bytes("from b"));
  CHECK(rb->peer_data == bytes("from a"));
  CHECK(ra->peer_qpn == b.number());
  CHECK(rb->peer_qpn == a.number());
  CHECK(ra->peer_gid == e.device.attributes().gid);
  CHECK(ra->path_mtu == e.device.attributes().active_mtu);
  CHECK(a.query().sq_psn == b.query().rq_psn);
  CHECK(b.query().sq_psn == a.query().rq_psn);
}

TEST_CASE("a connected pair carries data at once in both directions") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const QueuePair a = e.queue_pair();
  const QueuePair b = e.queue_pair();
  uint64_t words[4] = {11, 22, 0, 0};
  const MemoryRegion region = *e.pd.register_memory(words, sizeof words, Access::all);
  for (const QueuePair& qp : {a, b}) {
    REQUIRE(qp.modify({.state = QpState::init,
                       .pkey_index = uint16_t{0},
                       .port = uint8_t{1},
                       .access = Access::all}));
    const Sge sge = region.sge(qp.number() == a.number() ? 16 : 24, 8);
    REQUIRE(qp.post_recv({.id = 9, .sges = {&sge, 1}}));  // INIT keeps what was posted
  }
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, a, b, {}, {}, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  const Sge first = region.sge(0, 8);
  const Sge second = region.sge(8, 8);
  REQUIRE(a.post_send({.id = 1, .sges = {&first, 1}}));
  REQUIRE(b.post_send({.id = 2, .sges = {&second, 1}}));
  for (size_t done = 0; done < 4;) {
    Completion completions[4];
    const size_t n = e.cq.wait(completions, Duration::from_s(10));
    REQUIRE(n > 0);
    for (size_t i = 0; i < n; ++i) CHECK(completions[i].status == Status::success);
    done += n;
  }
  CHECK(words[3] == 11);
  CHECK(words[2] == 22);
}

TEST_CASE("both sides as state machines in one thread") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const QueuePair b = e.queue_pair();
  CHECK(listener.try_accept(b).error().code == Code::would_block);
  CHECK(b.state() == QpState::reset);
  Result<Connector> a = Connector::start(at(listener), e.queue_pair());
  REQUIRE(a);
  Result<Connector> accepted = Error{Code::would_block, ""};
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  for (int turn = 0; turn < 1000 && !(ra && rb); ++turn) {
    pollfd fds[2] = {{a->fd(), a->poll_events(), 0}, {listener.fd(), POLLIN, 0}};
    if (ra) fds[0].fd = -1;
    if (accepted) fds[1] = {accepted->fd(), accepted->poll_events(), 0};
    REQUIRE(poll(fds, 2, 5000) > 0);  // the descriptors never lie: something can be done
    if (!ra) ra = a->advance();
    if (!ra) REQUIRE(ra.error().code == Code::would_block);
    if (!accepted) accepted = listener.try_accept(b);
    if (accepted && !rb) rb = accepted->advance();
  }
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(a->advance().error().code == Code::bad_state);
}

TEST_CASE("the path MTU is the smaller one, and READ depth too") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const QueuePair a = e.queue_pair();
  const QueuePair b = e.queue_pair();
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, a, b, {.path_mtu = 512, .max_rd_atomic = 3},
               {.path_mtu = 1024, .sq_psn = Psn{0xFFFFFF}}, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(ra->path_mtu == 512);
  CHECK(rb->path_mtu == 512);
  CHECK(b.query().max_rd_atomic == uint8_t{3});
  CHECK(a.query().rq_psn == Psn{0xFFFFFF});
}

TEST_CASE("connect fails when there is no listener") {
  Endpoint e;
  const uint16_t port = Listener::listen("127.0.0.1:0")->port();  // free again
  const QueuePair qp = e.queue_pair();
  const Result<Connection> r = connect("127.0.0.1:" + std::to_string(port), qp);
  REQUIRE_FALSE(r);
  CHECK(r.error().code == Code::not_found);
  CHECK(r.error().message.find("no listener at 127.0.0.1:") == 0);
  CHECK(qp.state() == QpState::reset);
}

TEST_CASE("wrong arguments are named") {
  Endpoint e;
  const QueuePair qp = e.queue_pair();
  const auto code = [&](std::string_view address, const ConnectOptions& options) {
    return connect(address, qp, options).error().code;
  };
  CHECK(code("", {}) == Code::invalid_argument);
  CHECK(code("127.0.0.1:0", {}) == Code::invalid_argument);
  CHECK(code("127.0.0.1:x", {}) == Code::invalid_argument);
  CHECK(code("127.0.0.1:1", {.path_mtu = 1000}) == Code::invalid_argument);
  CHECK(code("127.0.0.1:1", {.path_mtu = 8192}) == Code::invalid_argument);
  CHECK(code("127.0.0.1:1", {.sq_psn = Psn{1u << 24}}) == Code::invalid_argument);
  CHECK(code("127.0.0.1:1", {.private_data = std::vector<std::byte>(4097)}) ==
        Code::invalid_argument);
  CHECK(connect("127.0.0.1:1", QueuePair{}).error().code == Code::invalid_argument);
  CHECK(Listener::listen("127.0.0.1:99999").error().code == Code::invalid_argument);
  REQUIRE(qp.modify({.state = QpState::init,
                     .pkey_index = uint16_t{0},
                     .port = uint8_t{1},
                     .access = Access::all}));
  REQUIRE(qp.modify({.state = QpState::err}));
  CHECK(code("127.0.0.1:1", {}) == Code::bad_state);
}

TEST_CASE("4096 bytes of private data fit") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  std::vector<std::byte> data(4096);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  Result<Connection> ra = kNone;
  Result<Connection> rb = kNone;
  connect_both(listener, e.queue_pair(), e.queue_pair(), {.private_data = data}, {}, ra, rb);
  REQUIRE(ra);
  REQUIRE(rb);
  CHECK(rb->peer_data == data);
  CHECK(ra->peer_data.empty());
}

TEST_CASE("a port that is taken is said so") {
  const Listener first = *Listener::listen("127.0.0.1:0");
  CHECK(Listener::listen(at(first)).error().code == Code::address_in_use);
}

TEST_CASE("giving up half way tells the peer and leaves no queue pair waiting") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  const QueuePair a = e.queue_pair();
  const QueuePair b = e.queue_pair();
  Connector client = *Connector::start(at(listener), a);
  Result<Connector> accepted = Error{Code::would_block, ""};
  while (!accepted) {
    REQUIRE(client.advance().error().code == Code::would_block);
    accepted = listener.try_accept(b);
  }
  REQUIRE(accepted->advance().error().code == Code::would_block);  // the hello is out
  accepted = Error{Code::would_block, ""};                         // gone
  Result<Connection> ra = client.advance();
  while (!ra && ra.error().code == Code::would_block) ra = client.advance();
  REQUIRE_FALSE(ra);
  CHECK(ra.error().code == Code::disconnected);
  CHECK(ra.error().message == "the peer refused: the peer gave up");
  CHECK(a.state() == QpState::err);  // it was on its way: nothing posted there may hang
  CHECK(b.state() == QpState::reset);
}

TEST_CASE("100 connections at once in one thread") {
  Endpoint e;
  Listener listener = *Listener::listen("127.0.0.1:0");
  constexpr size_t kCount = 100;
  std::vector<Connector> connectors;
  for (size_t i = 0; i < kCount; ++i)
    connectors.push_back(*Connector::start(at(listener), e.queue_pair()));
  const size_t clients = connectors.size();
  std::vector<Connection> connected;
  QueuePair next = e.queue_pair();
  const auto start = std::chrono::steady_clock::now();
  std::vector<bool> done(2 * kCount);
  while (connected.size() < 2 * kCount && seconds_since(start) < 60) {
    if (connectors.size() < clients + kCount) {
      Result<Connector> accepted = listener.try_accept(next);
      if (accepted) {
        connectors.push_back(std::move(*accepted));
        next = e.queue_pair();
      }
    }
    for (size_t i = 0; i < connectors.size(); ++i) {
      if (done[i]) continue;
      Result<Connection> r = connectors[i].advance();
      if (!r) REQUIRE(r.error().code == Code::would_block);
      if (!r) continue;
      done[i] = true;
      connected.push_back(std::move(*r));
    }
  }
  REQUIRE(connected.size() == 2 * kCount);
  for (const Connection& c : connected) CHECK(c.qp.state() == QpState::rts);
}

TEST_CASE("names and IPv6 addresses work where the host has them") {
  Endpoint e;
  Result<Listener> listener = Listener::listen("[::1]:0");
  if (!listener) return;  // no IPv6 here
  Result<Connection> rb = kNone;
  std::thread server([&] { rb = listener->accept(e.queue_pair()); });
  const Result<Connection> ra =
      connect("[::1]:" + std::to_string(listener->port()), e.queue_pair());
  server.join();
  CHECK(ra);
  CHECK(rb);
  Listener anywhere = *Listener::listen(":0");
  std::thread second([&] { rb = anywhere.accept(e.queue_pair()); });
  CHECK(connect("localhost:" + std::to_string(anywhere.port()), e.queue_pair()));
  second.join();
  CHECK(rb);
}

}  // namespace weft
