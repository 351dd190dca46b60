// SPDX-License-Identifier: BSD-3-Clause
// The timers of a connection manager: when each fires, in virtual time, and that none runs for a
// connection in use. //= roce:C-CM-107
#include "tests/support/cm_parties.hpp"

namespace weft::test {
namespace {

// A tick of the wheel is about 1 us, and an end may begin in the middle of one.
void check_after(Duration measured, Duration wanted) {
  INFO("after " << measured.ps / 1000 << " ns instead of " << wanted.ps / 1000);
  CHECK(measured >= wanted);
  CHECK(measured <= wanted + Duration::from_us(3));
}

const Duration kTimeout = cm::time_of(cm::AgentConfig{}.response_timeout);

struct Timers {
  CmNet net{1};
  Server server{net.add()};
  Client client{net.add()};
  std::map<Attribute, std::vector<Instant>> sent;  // by the client
  std::function<bool(Attribute)> passes = [](Attribute) { return true; };

  Timers() {
    net.filter = [this](const Gid& from, const Gid&, const cm::Mad& mad) {
      if (from == client.node.address) sent[kind_of(mad)].push_back(net.now);
      return passes(kind_of(mad));
    };
  }
  uint32_t connect() { return *client.node.connect(server.node, kService, 0x77); }
  // From now on until the agent has no connection.
  Duration until_gone(Node& node) {
    const Instant begin = net.now;
    while (node.agent.connections() != 0 && net.now - begin < Duration::from_s(60))
      net.run(Duration::from_us(1));
    return net.now - begin;
  }
};

TEST_CASE("a REQ is repeated 15 times at equal intervals, then the peer is unreachable") {
  Timers t;
  t.passes = [](Attribute) { return false; };
  Instant ended;
  const auto handle = t.client.node.on_event;
  t.client.node.on_event = [&](Event& event) {
    ended = t.net.now;
    handle(event);
  };
  t.connect();
  t.net.run(kTimeout * 20);
  const std::vector<Instant>& requests = t.sent[Attribute::req];
  REQUIRE(requests.size() == 16);
  for (size_t i = 1; i < requests.size(); ++i) check_after(requests[i] - requests[i - 1], kTimeout);
  check_after(ended - requests.back(), kTimeout);
  CHECK(t.client.log == Log{EventKind::unreachable});
  CHECK(t.sent[Attribute::rej].size() == 1);
  CHECK(t.client.node.agent.next_deadline().is_never());
}

TEST_CASE("a connection in use has no timer, at either end") {
  Timers t;
  t.connect();
  t.net.run(Duration::from_ms(1));
  REQUIRE(t.client.log == Log{EventKind::reply});
  REQUIRE(t.server.log == Log{EventKind::request, EventKind::established});
  CHECK(t.client.node.agent.next_deadline().is_never());
  CHECK(t.server.node.agent.next_deadline().is_never());
  t.net.run(Duration::from_s(600));
  CHECK(t.client.log.size() == 1);
  CHECK(t.server.log.size() == 2);
  CHECK(t.sent[Attribute::req].size() == 1);
  CHECK(t.client.node.agent.count(AgentCount::repeated) == 0);
  CHECK(t.server.node.agent.count(AgentCount::repeated) == 0);
}

TEST_CASE("a DREQ is repeated at equal intervals, then the connection ends without its DREP") {
  Timers t;
  const uint32_t id = t.connect();
  t.net.run(Duration::from_ms(1));
  t.passes = [](Attribute) { return false; };
  REQUIRE(t.client.node.agent.disconnect(id, t.net.now));
  t.net.run(kTimeout * 20);
  const std::vector<Instant>& requests = t.sent[Attribute::dreq];
  REQUIRE(requests.size() == 16);
  for (size_t i = 1; i < requests.size(); ++i) check_after(requests[i] - requests[i - 1], kTimeout);
  CHECK(t.client.log == Log{EventKind::reply, EventKind::disconnected});
}

// Twice the timeout of the peer's acknowledgements: as long as a MAD may be on its way.
TEST_CASE("TIMEWAIT lasts twice the ACK timeout of the connection, at both ends") {
  Timers t;
  const uint32_t id = t.connect();
  t.net.run(Duration::from_ms(1));
  REQUIRE(t.client.node.agent.disconnect(id, t.net.now));
  t.net.run(Duration::from_us(100));
  REQUIRE(t.client.log.back() == EventKind::disconnected);
  const Duration wanted = cm::time_of(cm::Offer{}.ack_timeout) * 2;
  const Duration server = t.until_gone(t.server.node);  // in TIMEWAIT since 10 us after the DREQ
  const Duration client = server + t.until_gone(t.client.node);  // since 20 us after it
  CHECK(server >= wanted - Duration::from_us(90));
  CHECK(server <= wanted - Duration::from_us(85));
  CHECK(client >= wanted - Duration::from_us(80));
  CHECK(client <= wanted - Duration::from_us(75));
}

}  // namespace
}  // namespace weft::test
