// SPDX-License-Identifier: BSD-3-Clause
// Many connections requested at once: a bounded number is outstanding to a peer, and the others
// follow as those are answered, rejected, abandoned, or answered with an MRA.
#include <algorithm>

#include "tests/support/cm_parties.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kAtOnce = 256;  // AgentConfig::max_requests

// How many REQs (SIDR_REQs) have left for a node that it has not answered in some way.
struct Watch {
  explicit Watch(CmNet& net) {
    net.filter = [this](const Gid&, const Gid&, const cm::Mad& mad) {
      const Attribute kind = kind_of(mad);
      if (kind == Attribute::req || kind == Attribute::sidr_req) most = std::max(most, ++open);
      if (kind == Attribute::rep || kind == Attribute::sidr_rep || kind == Attribute::mra) --open;
      if (kind == Attribute::rej) --open;
      return true;
    };
  }
  int open = 0, most = 0;
};

size_t count(const Log& log, EventKind kind) {
  return static_cast<size_t>(std::count(log.begin(), log.end(), kind));
}

TEST_CASE("a burst of connections is requested a bounded number at a time (C-CM-106)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  Watch watch(net);
  for (uint32_t i = 0; i < 2000; ++i) (void)*client.node.connect(server.node, kService, 1 + i);
  net.run(Duration::from_ms(100));  // less than the retransmission timeout
  CHECK(count(client.log, EventKind::reply) == 2000);
  CHECK(count(server.log, EventKind::established) == 2000);
  CHECK(watch.most == static_cast<int>(kAtOnce));
  CHECK(server.node.agent.count(AgentCount::evicted) == 0);
}

TEST_CASE("the limits of two peers are independent") {
  CmNet net(1);
  Server server(net.add());
  Node& silent = net.add();
  Client client(net.add());
  net.filter = [&](const Gid&, const Gid& to, const cm::Mad&) { return to != silent.address; };
  for (uint32_t i = 0; i < 600; ++i) (void)*client.node.connect(silent, kService, 1 + i);
  for (uint32_t i = 0; i < 600; ++i) (void)*client.node.connect(server.node, kService, 1000 + i);
  net.run(Duration::from_ms(100));
  CHECK(count(client.log, EventKind::reply) == 600);
  CHECK(count(client.log, EventKind::unreachable) == 0);
  net.run(Duration::from_s(20));  // three times the lifetime of one: 16 * 268 ms
  CHECK(count(client.log, EventKind::unreachable) == 600);
}

TEST_CASE("rejected requests make room for queued ones") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  Watch watch(net);
  for (uint32_t i = 0; i < 1000; ++i) (void)*client.node.connect(server.node, kService + 1, 1 + i);
  net.run(Duration::from_ms(100));
  CHECK(count(client.log, EventKind::rejected) == 1000);
  CHECK(watch.most == static_cast<int>(kAtOnce));
}

TEST_CASE("requests answered with an MRA make room for queued ones (C-CM-106)") {
  CmNet net(1);
  Server server(net.add());
  server.accepts = false;
  Client client(net.add());
  for (uint32_t i = 0; i < 300; ++i) (void)*client.node.connect(server.node, kService, 1 + i);
  net.run(Duration::from_ms(100));
  CHECK(count(server.log, EventKind::request) == kAtOnce);
  net.run(Duration::from_ms(400));  // repeated after 268 ms, and answered with an MRA
  CHECK(count(server.log, EventKind::request) == 300);
}

TEST_CASE("a released request makes room, or leaves the queue without a MAD") {
  CmNet net(1);
  Server server(net.add());
  server.accepts = false;
  Client client(net.add());
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < kAtOnce + 3; ++i)
    ids.push_back(*client.node.connect(server.node, kService, 1 + i));
  client.node.agent.release(ids[kAtOnce + 1], net.now);  // queued
  net.run(Duration::from_ms(1));
  CHECK(count(server.log, EventKind::request) == kAtOnce);
  CHECK(client.node.agent.count(AgentCount::sent) == kAtOnce);
  client.node.agent.release(ids[7], net.now);  // outstanding
  net.run(Duration::from_ms(1));
  CHECK(count(server.log, EventKind::request) == kAtOnce + 1);
  client.node.agent.release(ids[8], net.now);
  net.run(Duration::from_ms(1));
  CHECK(count(server.log, EventKind::request) == kAtOnce + 2);
  const std::vector<uint32_t> rest(ids.begin() + 9, ids.end());
  for (const uint32_t id : rest) client.node.agent.release(id, net.now);
  for (uint32_t i = 0; i < 7; ++i) client.node.agent.release(ids[i], net.now);
  CHECK(client.node.agent.connections() == 0);
  (void)*client.node.connect(server.node, kService, 9999);  // as with a new agent
  net.run(Duration::from_ms(1));
  CHECK(count(server.log, EventKind::request) == kAtOnce + 3);
}

TEST_CASE("SIDR requests count against the limit") {
  CmNet net(1);
  constexpr uint64_t kDatagrams = cm::kPortSpaceUdp | 7174;
  Node& server = net.add();
  REQUIRE(server.agent.listen(kDatagrams, server.inbox));
  server.on_event = [&](Event& event) {
    if (event.kind == EventKind::request)
      REQUIRE(server.agent.serve(event.id, QpNum{5}, 6, {}, net.now));
  };
  Client client(net.add());
  Watch watch(net);
  for (uint32_t i = 0; i < 1000; ++i)
    (void)*client.node.agent.find_service(server.address, kDatagrams, 0, {}, client.node.inbox,
                                          net.now);
  net.run(Duration::from_ms(100));
  CHECK(count(client.log, EventKind::served) == 1000);
  CHECK(watch.most == static_cast<int>(kAtOnce));
}

TEST_CASE("each of a burst ends under loss (C-CM-106)") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    CmNet net(seed, {.loss_ppm = 100'000, .repeat_ppm = 50'000, .late_ppm = 20'000});
    Server server(net.add());
    Client client(net.add());
    for (uint32_t i = 0; i < 1000; ++i) (void)*client.node.connect(server.node, kService, 1 + i);
    net.run(Duration::from_s(30));
    CHECK(count(client.log, EventKind::reply) + count(client.log, EventKind::rejected) +
              count(client.log, EventKind::unreachable) >=
          1000);
    CHECK(count(client.log, EventKind::reply) >= 990);
  }
}

}  // namespace
}  // namespace weft::test
