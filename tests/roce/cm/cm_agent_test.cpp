// SPDX-License-Identifier: BSD-3-Clause
// The connection manager without engines: MADs and events by state, with loss and duplication,
// without responses, with restarts of a peer. //= roce:C-CM-106..108
#include <map>

#include "tests/support/cm_parties.hpp"

namespace weft::test {
namespace {

TEST_CASE("a connection is requested, accepted, used and disconnected (C-CM-106)") {
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
  // TIMEWAIT (C-CM-107), then nothing is left.
  CHECK(client.node.agent.connections() == 1);
  CHECK(server.node.agent.connections() == 1);
  net.run(Duration::from_s(1));
  CHECK(client.node.agent.connections() == 0);
  CHECK(server.node.agent.connections() == 0);
  CHECK(client.node.agent.next_deadline().is_never());
}

TEST_CASE(
    "an alternate path is refused in the REP and by APR, and the connection lives, C-AV-132") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  const bool alternate = GENERATE(false, true);
  std::vector<cm::Mad> reps, aprs;
  net.filter = [&](const Gid& from, const Gid& to, const cm::Mad& mad) {
    const auto kind = static_cast<Attribute>(uint16_t{cm::header_of(mad).attribute});
    if (kind == Attribute::req && alternate) {  // the same REQ, with an alternate path
      cm::Mad other = mad;
      cm::body_of<cm::Req>(other).alternate.remote_gid = Gid::from_ipv4(10, 0, 1, 1);
      net.give(server.node, from, other);
      return false;
    }
    if (kind == Attribute::rep) reps.push_back(mad);
    if (kind == Attribute::apr) aprs.push_back(mad);
    return to == server.node.address || kind != Attribute::apr;
  };
  const uint32_t id = *client.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  net.run(Duration::from_ms(1));  // what the filter gave is handled at the start of a run
  REQUIRE(client.log == Log{EventKind::reply});
  REQUIRE(reps.size() == 1);
  CHECK((cm::body_of<cm::Rep>(reps[0]).delay_flow >> 1 & 3) == (alternate ? 1 : 0));
  cm::Lap lap{};
  lap.local_id = id;
  lap.remote_id = server.id;
  net.give(server.node, client.node.address, cm::make(lap, 0x1234));
  net.run(Duration::from_ms(1));
  REQUIRE(aprs.size() == 1);
  CHECK(cm::header_of(aprs[0]).transaction == 0x1234);
  const auto& apr = cm::body_of<cm::Apr>(aprs[0]);
  CHECK(apr.local_id == server.id);
  CHECK(apr.remote_id == id);
  CHECK(apr.status == 2);
  net.give(server.node, Gid::from_ipv4(10, 9, 9, 9), cm::make(lap, 2));  // of a third party
  net.give(client.node, server.node.address, aprs[0]);
  net.run(Duration::from_ms(1));
  CHECK(aprs.size() == 1);
  CHECK(client.node.agent.count(AgentCount::unexpected) == 1);
  CHECK(server.log == Log{EventKind::request, EventKind::established});
  REQUIRE(client.node.agent.disconnect(id, net.now));
  net.run(Duration::from_ms(1));
  CHECK(server.log.back() == EventKind::disconnected);
}

TEST_CASE("a REQ without a listener, or an invalid one, is rejected (C-CM-106)") {
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

TEST_CASE("each MAD may be lost once, and duplicated (C-CM-106)") {
  for (const Attribute lost :
       {Attribute::req, Attribute::rep, Attribute::rtu, Attribute::dreq, Attribute::drep}) {
    for (const bool twice : {false, true}) {
      CAPTURE(static_cast<int>(lost), twice);
      CmNet net(1, {.repeat_ppm = twice ? 1'000'000u : 0});
      Server server(net.add());
      Client client(net.add());
      uint32_t seen = 0;
      net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
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

TEST_CASE("the first request of the peer implies its RTU (C-CM-106)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) != Attribute::rtu;
  };
  (void)*client.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  CHECK(server.log == Log{EventKind::request});
  const auto first_request = [&](uint32_t number, const Node& peer, uint32_t peer_number) {
    server.node.agent.on_first_request(QpNum{number}, peer.address, QpNum{peer_number}, net.now);
    net.run(Duration::from_ms(1));
  };
  first_request(0x1001, client.node, 0x77);  // not the queue pair that was accepted with
  first_request(0x1000, server.node, 0x77);
  first_request(0x1000, client.node, 0x78);
  CHECK(server.log == Log{EventKind::request});
  first_request(0x1000, client.node, 0x77);
  CHECK(server.log == Log{EventKind::request, EventKind::established});
  const uint64_t repeated = server.node.agent.count(AgentCount::repeated);
  first_request(0x1000, client.node, 0x77);
  net.run(Duration::from_s(2));
  CHECK(server.log == Log{EventKind::request, EventKind::established});
  CHECK(server.node.agent.count(AgentCount::repeated) == repeated);
}

TEST_CASE("no peer, or no decision: half-open connections expire (C-CM-107)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  server.accepts = false;
  bool unreachable = true;
  net.filter = [&](const Gid&, const Gid& to, const cm::Mad&) {
    return !unreachable || to != server.node.address;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_ms(268 * 17));
  CHECK(client.log == Log{EventKind::unreachable});
  CHECK(client.node.agent.count(AgentCount::repeated) == 15);

  // Listens and never decides: the client gets an MRA, which expires.
  unreachable = false;
  client.log.clear();
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_s(10));
  CHECK(client.log.empty());
  CHECK(client.node.agent.count(AgentCount::repeated) == 16);  // an MRA holds it
  net.run(Duration::from_s(400));
  CHECK(client.log == Log{EventKind::unreachable});
  CHECK(server.log == Log{EventKind::request, EventKind::rejected});  // abandoned with a REJ
  CHECK(server.node.agent.connections() == 0);

  // Nor does the listener hold for ever what a client has forgotten.
  server.log.clear();
  net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) == Attribute::req;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_s(400));
  CHECK(server.log == Log{EventKind::request, EventKind::unreachable});
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE("the request of a client that died expires, and an abandoned one is removed (C-CM-107)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  server.accepts = false;
  uint32_t requests = 0;
  net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) == Attribute::req && ++requests == 1;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_ms(4000));
  CHECK(server.log == Log{EventKind::request});
  net.run(Duration::from_ms(1000));
  CHECK(server.log == Log{EventKind::request, EventKind::unreachable});
  CHECK(server.node.agent.connections() == 0);

  // Abandoned before the application took the event: the event is removed.
  net.filter = {};
  const auto handler = std::move(server.node.on_event);
  server.node.on_event = {};
  const uint32_t id = *client.node.connect(server.node, kService, 2);
  net.run(Duration::from_ms(1));
  CHECK(server.node.agent.connections() == 1);
  client.node.agent.release(id, net.now);
  net.run(Duration::from_ms(1));
  server.node.on_event = handler;
  net.run(Duration::from_s(1));
  CHECK(server.log.size() == 2);
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE("an accepted connection of a client that died ends (C-CM-107)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    return kind_of(mad) == Attribute::req;
  };
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_s(10));
  CHECK(server.log == Log{EventKind::request, EventKind::unreachable});
  CHECK(server.node.agent.connections() == 0);
}

TEST_CASE(
    "a REQ of a restarted peer is rejected as stale, and the old connection ends (C-CM-108)") {
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

TEST_CASE("a restarted server with an old queue pair number is detected by its REP (C-CM-108)") {
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

TEST_CASE(
    "two peers connect to each other at the same time, and disconnect at the same time "
    "(C-CM-106)") {
  CmNet net(1);
  Node& a = net.add();
  Node& b = net.add();
  std::map<Node*, Log> events;
  std::map<Node*, std::vector<uint32_t>> open;
  for (Node* const node : {&a, &b}) {
    REQUIRE(node->agent.listen(kService, node->inbox));
    node->on_event = [&, node](Event& event) {
      events[node].push_back(event.kind);
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
    CHECK(events[node] == Log{EventKind::request, EventKind::reply, EventKind::established});
    REQUIRE(open[node].size() == 2);
  }
  for (Node* const node : {&a, &b})
    for (const uint32_t id : open[node]) REQUIRE(node->agent.disconnect(id, net.now));
  net.run(Duration::from_s(1));
  for (Node* const node : {&a, &b}) {
    CHECK(events[node].size() == 5);
    CHECK(node->agent.connections() == 0);
  }
}

// A program that listens anew for each connection.
TEST_CASE("a request that arrives between two listens is repeated, and meets the second") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  server.node.agent.stop_listening(kService, net.now);
  (void)*client.node.connect(server.node, kService, 1);
  net.run(Duration::from_ms(100));
  CHECK(client.log.empty());
  CHECK(server.node.agent.count(AgentCount::deferred) == 1);
  REQUIRE(server.node.agent.listen(kService, server.node.inbox));
  net.run(Duration::from_s(1));
  CHECK(client.log == Log{EventKind::reply});
  CHECK(server.log == Log{EventKind::request, EventKind::established});
}

TEST_CASE("a listener of one port space may be followed by one of the other, at the same port") {
  CmNet net(1);
  Server server(net.add(), cm::kPortSpaceTcp | 7174);
  Node& client = net.add();
  std::vector<EventKind> told;
  client.on_event = [&](Event& event) { told.push_back(event.kind); };
  server.node.agent.stop_listening(cm::kPortSpaceTcp | 7174, net.now);
  REQUIRE(client.agent.find_service(server.node.address, cm::kPortSpaceUdp | 7174, 4000, {},
                                    client.inbox, net.now));
  net.run(Duration::from_ms(100));
  CHECK(told.empty());
  CHECK(server.node.agent.count(AgentCount::deferred) == 1);
}

TEST_CASE("a request after the last listen is refused when it is repeated") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  server.node.agent.stop_listening(kService, net.now);
  (void)*client.node.connect(server.node, kService, 1);
  net.run(cm::kBetweenListeners);
  CHECK(client.log.empty());
  net.run(Duration::from_ms(500));
  CHECK(client.log == Log{EventKind::rejected});
  CHECK(client.reason == Reason::invalid_service);
  CHECK(server.node.agent.connections() == 0);
  client.log.clear();
  (void)*client.node.connect(server.node, kService, 2);  // the listener closed long ago
  net.run(Duration::from_ms(10));
  CHECK(client.log == Log{EventKind::rejected});
}

TEST_CASE("a request that the application releases after its listener meets the next listener") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  cm::Inbox first;
  constexpr uint64_t kOther = cm::kPortSpaceTcp | 7175;
  REQUIRE(server.node.agent.listen(kOther, first));
  (void)*client.node.connect(server.node, kOther, 1);
  net.run(Duration::from_ms(1));
  Event request;
  REQUIRE(server.node.agent.next(first, request));
  server.node.agent.stop_listening(kOther, net.now);
  server.node.agent.release(request.id, net.now);
  CHECK(server.node.agent.connections() == 0);
  REQUIRE(server.node.agent.listen(kOther, server.node.inbox));
  net.run(Duration::from_s(1));
  CHECK(client.log == Log{EventKind::reply});
  CHECK(server.log == Log{EventKind::request, EventKind::established});
}

}  // namespace
}  // namespace weft::test
