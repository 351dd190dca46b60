// SPDX-License-Identifier: BSD-3-Clause
// The connection manager without engines: who says what in which state, what a network that loses,
// repeats and delays does to it, and that nothing is left over. //= roce:C-CM-106..108
#include <malloc.h>

#include <cstdio>
#include <map>

#include "tests/support/catch.hpp"
#include "tests/support/cm_net.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

using cm::AgentCount;
using cm::Attribute;
using cm::Event;
using cm::EventKind;
using cm::Reason;
using Node = CmNet::Node;

constexpr uint64_t kService = cm::kPortSpaceTcp | 7174;

Attribute kind_of(const cm::Mad& mad) {
  return static_cast<Attribute>(uint16_t{cm::header_of(mad).attribute});
}

// Accepts all, and writes down what it hears.
struct Server {
  Server(Node& where, uint64_t service = kService) : node(where) {
    REQUIRE(node.agent.listen(service, node.inbox));
    node.on_event = [this](Event& event) { hear(event); };
  }
  void hear(Event& event) {
    log.push_back(event.kind);
    if (event.kind == EventKind::request) {
      request = *event.mad;
      id = event.id;
      if (accepts) REQUIRE(node.accept(event.id, next_qpn++));
    } else if (event.kind >= EventKind::rejected) {
      node.agent.release(event.id, node.net.now);
    }
  }
  Node& node;
  bool accepts = true;
  uint32_t next_qpn = 0x1000, id = 0;
  cm::Mad request{};
  std::vector<EventKind> log;
};

struct Client {
  explicit Client(Node& where) : node(where) {
    node.on_event = [this](Event& event) { hear(event); };
  }
  void hear(Event& event) {
    log.push_back(event.kind);
    reason = event.reason;
    if (event.kind == EventKind::reply) {
      reply = *event.mad;
      (void)node.agent.confirm(event.id, node.net.now);
      if (closes) (void)node.agent.disconnect(event.id, node.net.now);
    } else {
      node.agent.release(event.id, node.net.now);
    }
  }
  Node& node;
  bool closes = false;
  Reason reason = Reason::none;
  cm::Mad reply{};
  std::vector<EventKind> log;
};

using Log = std::vector<EventKind>;

TEST_CASE("a connection is asked for, accepted, used and ended (C-CM-106)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  const uint32_t id = *client.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  CHECK(client.log == Log{EventKind::reply});
  CHECK(server.log == Log{EventKind::request, EventKind::established});
  const cm::Req& req = cm::body_of<cm::Req>(server.request);
  CHECK(req.local_qpn == 0x77);
  CHECK(req.starting_psn == 0x78);
  CHECK(req.service_id == kService);
  CHECK(req.primary.local_gid == client.node.address);
  CHECK(req.primary.local_lid == cm::kNoLid);
  CHECK(cm::ip_addresses(req)->destination == server.node.address);
  CHECK(cm::body_of<cm::Rep>(client.reply).local_qpn == 0x1000);
  REQUIRE(client.node.agent.disconnect(id, net.now));
  net.run(Duration::from_ms(1));
  CHECK(client.log == Log{EventKind::reply, EventKind::disconnected});
  CHECK(server.log.back() == EventKind::disconnected);
  // Their names rest for a while (C-CM-107), then nothing is left.
  CHECK(client.node.agent.connections() == 1);
  CHECK(server.node.agent.connections() == 1);
  net.run(Duration::from_s(1));
  CHECK(client.node.agent.connections() == 0);
  CHECK(server.node.agent.connections() == 0);
  CHECK(client.node.agent.next_deadline().is_never());
}

TEST_CASE("who does not listen, and what does not fit, is refused (C-CM-106)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  (void)*client.node.connect(server.node, kService + 1, 1);
  net.run(Duration::from_ms(1));
  CHECK(client.log == Log{EventKind::rejected});
  CHECK(client.reason == Reason::invalid_service);
  server.accepts = false;
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_ms(1));
  const std::vector<std::byte> why(148, std::byte{7});
  CHECK(server.node.agent.reject(server.id, Reason::consumer, std::vector<std::byte>(149), net.now)
            .error()
            .code == Code::invalid_argument);
  REQUIRE(server.node.agent.reject(server.id, Reason::consumer, why, net.now));
  net.run(Duration::from_ms(1));
  CHECK(client.log.back() == EventKind::rejected);
  CHECK(client.reason == Reason::consumer);
  net.run(Duration::from_s(1));
  CHECK(client.node.agent.connections() == 0);
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE("each datagram may be lost once, and come twice (C-CM-106)") {
  for (const Attribute lost : {Attribute::req, Attribute::rep, Attribute::rtu, Attribute::dreq,
                               Attribute::drep}) {
    for (const bool twice : {false, true}) {
      CAPTURE(static_cast<int>(lost), twice);
      CmNet net(1, {.repeat_ppm = twice ? 1'000'000u : 0});
      Server server(net.add());
      Client client(net.add());
      uint32_t seen = 0;
      net.judge = [&](const Gid&, const Gid&, const cm::Mad& mad) {
        return kind_of(mad) != lost || ++seen != 1;
      };
      const uint32_t id = *client.node.connect(server.node, kService, 0x77);
      net.run(Duration::from_s(1));
      CHECK(client.log == Log{EventKind::reply});
      CHECK(server.log == Log{EventKind::request, EventKind::established});
      REQUIRE(client.node.agent.disconnect(id, net.now));
      net.run(Duration::from_s(3));
      CHECK(client.log == Log{EventKind::reply, EventKind::disconnected});
      CHECK(server.log.size() == 3);
      CHECK(seen >= 2);
      CHECK(client.node.agent.connections() == 0);
      CHECK(server.node.agent.connections() == 0);
    }
  }
}

TEST_CASE("nobody there, and nobody who decides: half-open ends (C-CM-107)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  server.accepts = false;
  bool deaf = true;
  net.judge = [&](const Gid&, const Gid& to, const cm::Mad&) {
    return !deaf || to != server.node.address;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_ms(268 * 17));
  CHECK(client.log == Log{EventKind::unreachable});
  CHECK(client.node.agent.count(AgentCount::repeated) == 15);

  // Listens and never decides: the client is told to wait, and not for ever.
  deaf = false;
  client.log.clear();
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_s(10));
  CHECK(client.log.empty());
  CHECK(client.node.agent.count(AgentCount::repeated) == 16);  // an MRA holds it
  net.run(Duration::from_s(400));
  CHECK(client.log == Log{EventKind::unreachable});
  CHECK(server.log == Log{EventKind::request, EventKind::rejected});  // given up: a REJ says so
  CHECK(server.node.agent.connections() == 0);

  // Nor does the listener hold for ever what a client has forgotten.
  server.log.clear();
  net.judge = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) == Attribute::req;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_s(400));
  CHECK(server.log == Log{EventKind::request, EventKind::unreachable});
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE("one request of a client that died is forgotten, and one taken back (C-CM-107)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  server.accepts = false;
  uint32_t requests = 0;
  net.judge = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) == Attribute::req && ++requests == 1;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_ms(4000));
  CHECK(server.log == Log{EventKind::request});
  net.run(Duration::from_ms(1000));
  CHECK(server.log == Log{EventKind::request, EventKind::unreachable});
  CHECK(server.node.agent.connections() == 0);

  // Taken back before the application has looked: it never hears of it.
  net.judge = {};
  const auto hear = std::move(server.node.on_event);
  server.node.on_event = {};
  const uint32_t id = *client.node.connect(server.node, kService, 2);
  net.run(Duration::from_ms(1));
  CHECK(server.node.agent.connections() == 1);
  client.node.agent.release(id, net.now);
  net.run(Duration::from_ms(1));
  server.node.on_event = hear;
  net.run(Duration::from_s(1));
  CHECK(server.log.size() == 2);
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE("an accepted connection of a client that died ends (C-CM-107)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  net.judge = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) == Attribute::req;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_s(10));
  CHECK(server.log == Log{EventKind::request, EventKind::unreachable});
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE("a peer that begins anew is told that its old connection stands, which ends (C-CM-108)") {
  CmNet net(1);
  Server server(net.add());
  {
    Client client(net.add());
    (void)*client.node.connect(server.node, kService, 0x77);
    net.run(Duration::from_ms(1));
    REQUIRE(server.log.back() == EventKind::established);
    net.restart(client.node);
  }
  Client again(net.at(1));
  (void)*again.node.connect(server.node, kService, 0x77);  // the same queue pair number
  net.run(Duration::from_ms(1));
  CHECK(again.log == Log{EventKind::rejected});
  CHECK(again.reason == Reason::stale);
  CHECK(server.log.back() == EventKind::disconnected);
  CHECK(server.node.agent.count(AgentCount::stale) == 1);
  (void)*again.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  CHECK(again.log.back() == EventKind::reply);
  CHECK(server.log.back() == EventKind::established);
}

TEST_CASE("a server that begins anew with an old number is found out by its REP (C-CM-108)") {
  CmNet net(1);
  Client client(net.add());
  uint32_t first = 0;
  {
    Server server(net.add());
    first = *client.node.connect(server.node, kService, 1);
    net.run(Duration::from_ms(1));
    net.restart(server.node);
  }
  Server server(net.at(1));
  (void)*client.node.connect(server.node, kService, 2);
  net.run(Duration::from_ms(1));
  CHECK(client.log == Log{EventKind::reply, EventKind::disconnected, EventKind::rejected});
  CHECK(client.reason == Reason::stale);
  CHECK(client.node.agent.disconnect(first, net.now));  // over already: nothing to do
  server.next_qpn = 0x2000;
  (void)*client.node.connect(server.node, kService, 2);
  net.run(Duration::from_ms(1));
  CHECK(client.log.back() == EventKind::reply);
}

TEST_CASE("two connect to each other at the same time, and end at the same time (C-CM-106)") {
  CmNet net(1);
  Node& a = net.add();
  Node& b = net.add();
  std::map<Node*, Log> heard;
  std::map<Node*, std::vector<uint32_t>> open;
  for (Node* const node : {&a, &b}) {
    REQUIRE(node->agent.listen(kService, node->inbox));
    node->on_event = [&, node](Event& event) {
      heard[node].push_back(event.kind);
      if (event.kind == EventKind::request) REQUIRE(node->accept(event.id, 0x2000));
      if (event.kind == EventKind::reply) REQUIRE(node->agent.confirm(event.id, net.now));
      if (event.kind == EventKind::request || event.kind == EventKind::reply)
        open[node].push_back(event.id);
      if (event.kind == EventKind::disconnected) node->agent.release(event.id, net.now);
    };
  }
  (void)*a.connect(b, kService, 0x1000);
  (void)*b.connect(a, kService, 0x1000);
  net.run(Duration::from_ms(1));
  for (Node* const node : {&a, &b}) {
    CHECK(heard[node] == Log{EventKind::request, EventKind::reply, EventKind::established});
    REQUIRE(open[node].size() == 2);
  }
  for (Node* const node : {&a, &b})
    for (const uint32_t id : open[node]) REQUIRE(node->agent.disconnect(id, net.now));
  net.run(Duration::from_s(1));
  for (Node* const node : {&a, &b}) {
    CHECK(heard[node].size() == 5);
    CHECK(node->agent.connections() == 0);
  }
}

TEST_CASE("strangers and other sources change nothing (A10, threat:A17)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  std::vector<cm::Mad> captured;
  net.judge = [&](const Gid&, const Gid& to, const cm::Mad& mad) {
    if (to == server.node.address) captured.push_back(mad);
    return true;
  };
  const uint32_t id = *client.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  cm::Dreq dreq{};
  dreq.local_id = id;
  dreq.remote_id = server.id;
  dreq.remote_qpn = 0x1000u;
  const Gid elsewhere = Gid::from_ipv4(10, 9, 9, 9);
  net.give(server.node, elsewhere, cm::make(dreq, 1));
  CHECK(server.node.agent.count(AgentCount::wrong_source) == 1);
  dreq.remote_qpn = 0x1001u;
  net.give(server.node, client.node.address, cm::make(dreq, 1));
  dreq.remote_qpn = 0x1000u;
  dreq.local_id = id + 1;
  net.give(server.node, client.node.address, cm::make(dreq, 1));
  CHECK(server.node.agent.count(AgentCount::unexpected) == 2);
  // A third party that knows every name, but not the address.
  net.give(server.node, elsewhere, cm::make(cm::Rej{.local_id = id, .remote_id = server.id}, 1));
  net.give(client.node, elsewhere, cm::make(cm::Rej{.local_id = server.id, .remote_id = id}, 1));
  net.give(client.node, elsewhere, cm::make(cm::Drep{.local_id = server.id, .remote_id = id}, 1));
  CHECK(client.node.agent.count(AgentCount::wrong_source) == 2);
  // All that the client has ever said, again: it stays one connection.
  const std::vector<cm::Mad> replay = captured;
  for (const cm::Mad& mad : replay) net.give(server.node, client.node.address, mad);
  net.run(Duration::from_ms(1));
  CHECK(server.log == Log{EventKind::request, EventKind::established});
  CHECK(client.log == Log{EventKind::reply});
  CHECK(server.node.agent.connections() == 1);
}

TEST_CASE("a flood from spoofed sources is bounded, and the honest get through (threat:A17)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  cm::Req req{};
  req.local_id = 7u;
  req.service_id = kService;
  req.local_qpn = 9u;
  req.response_transport = 20 << 3;
  req.response_retries = 20 << 3;
  req.mtu_rnr = 5 << 4;
  req.retries_srq = 15 << 4;
  req.primary.remote_gid = server.node.address;
  base::Random random(3);
  const uint64_t flood = scaled(1'000'000);
  size_t most = 0, grown = 0;
  uint64_t honest = 0;
  const size_t before = mallinfo2().uordblks;
  for (uint64_t i = 0; i < flood; ++i) {
    const auto r = static_cast<uint32_t>(random.next());
    req.primary.local_gid = Gid::from_ipv4(172, static_cast<uint8_t>(r >> 16),
                                           static_cast<uint8_t>(r >> 8), static_cast<uint8_t>(r));
    req.local_id = r;
    net.give(server.node, req.primary.local_gid, cm::make(req, r));
    most = std::max(most, server.node.agent.connections());
    if (i % 100 == 0) net.run(Duration::from_us(1));  // 10^8 a second
    const size_t used = i % 1000 == 0 ? mallinfo2().uordblks : 0;
    grown = std::max(grown, std::max(used, before) - before);
    if (i % 50'000 != 0) continue;
    ++honest;
    (void)*client.node.connect(server.node, kService, static_cast<uint32_t>(0x10'0000 + i));
    net.run(Duration::from_us(40));
  }
  net.run(Duration::from_ms(1));
  CHECK(server.node.agent.count(AgentCount::evicted) > flood / 2);
  // Half-open ones, those of the honest, and those whose end the application has yet to take.
  CHECK(most <= 512 + 100 + honest + 2);
  CHECK(client.log == Log(honest, EventKind::reply));
  CHECK(grown <= 1u << 20);
  std::printf("%zu bytes grown at most under a flood of %llu requests\n", grown,
              static_cast<unsigned long long>(flood));
}

TEST_CASE("many connections over a bad network: each ends, nothing is left (C-CM-106, C-CM-107)") {
  const uint64_t seed = 0x5eed;
  for (const CmFaults faults : {CmFaults{}, CmFaults{100'000, 50'000, 50'000},
                                CmFaults{300'000, 300'000, 300'000}}) {
    CAPTURE(faults.loss_ppm, seed);
    CmNet net(seed, faults);
    Server server(net.add());
    Client client(net.add());
    client.closes = true;
    const uint64_t count = scaled(faults.loss_ppm == 0 ? 100'000 : 5'000);
    uint64_t asked = 0;
    uint32_t qpn = 1;
    while (asked < count) {
      for (int burst = 0; burst < 50; ++burst, ++asked)
        (void)*client.node.connect(server.node, kService, ++qpn & 0xFFFFFF);
      net.run(faults.loss_ppm == 0 ? Duration::from_ms(1) : Duration::from_s(2));
    }
    net.run(Duration::from_s(600));
    std::map<EventKind, uint64_t> heard;
    for (const EventKind kind : client.log) ++heard[kind];
    CHECK(heard[EventKind::reply] + heard[EventKind::rejected] + heard[EventKind::unreachable] >=
          asked);
    CHECK(heard[EventKind::reply] > asked * 99 / 100);
    CHECK(heard[EventKind::reply] >= heard[EventKind::disconnected]);
    CHECK(client.node.agent.connections() == 0);
    CHECK(server.node.agent.connections() == 0);
    CHECK(client.node.agent.next_deadline().is_never());
    CHECK(server.node.agent.next_deadline().is_never());
  }
}

}  // namespace
}  // namespace weft::test
