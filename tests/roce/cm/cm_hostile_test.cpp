// SPDX-License-Identifier: BSD-3-Clause
// The connection manager with unauthenticated senders, under a flood, and on a network that loses,
// repeats and delays at random: bounded memory, and nothing is left over. //= roce:C-CM-106
// threat:A17
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/support/cm_parties.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

TEST_CASE("MADs of unknown ids and other sources change nothing (A10, threat:A17)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  std::vector<cm::Mad> captured;
  net.filter = [&](const Gid&, const Gid& to, const cm::Mad& mad) {
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
  // All MADs of the client, replayed: it stays one connection.
  const std::vector<cm::Mad> replay = captured;
  for (const cm::Mad& mad : replay) net.give(server.node, client.node.address, mad);
  net.run(Duration::from_ms(1));
  CHECK(server.log == Log{EventKind::request, EventKind::established});
  CHECK(client.log == Log{EventKind::reply});
  CHECK(server.node.agent.connections() == 1);
}

TEST_CASE("a sender that does not know our id completes no connection (threat:A17)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  net.filter = [&](const Gid&, const Gid& to, const cm::Mad& mad) {  // the RTU is lost
    return to != server.node.address ||
           static_cast<cm::Attribute>(uint16_t{cm::header_of(mad).attribute}) != cm::Attribute::rtu;
  };
  const uint32_t id = *client.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  REQUIRE(server.log == Log{EventKind::request});
  const uint64_t unknown = server.node.agent.count(AgentCount::unknown_id);
  net.give(server.node, client.node.address, cm::make(cm::Rtu{.local_id = id}, 1));
  CHECK(server.node.agent.count(AgentCount::unknown_id) == unknown + 1);
  net.give(server.node, Gid::from_ipv4(224, 0, 0, 9), cm::make(cm::Rtu{.local_id = id}, 1));
  CHECK(server.node.agent.count(AgentCount::unknown_id) == unknown + 2);
  CHECK(server.log == Log{EventKind::request});
}

// How long an honest client waits from its REQ to our REP, in virtual time.
struct Honest {
  explicit Honest(Client& who) : client(who) {
    client.node.on_event = [this](Event& event) {
      if (event.kind == EventKind::reply) took.push_back(client.node.net.now - asked[event.id]);
      client.handle(event);
    };
  }
  void connect(Server& server) {
    const uint32_t id = *client.node.connect(server.node, kService, next_qpn++);
    asked[id] = client.node.net.now;
  }
  // Of those since the last call.
  Duration percentile_99() {
    REQUIRE_FALSE(took.empty());
    std::sort(took.begin(), took.end());
    const Duration value = took[(took.size() - 1) * 99 / 100];
    took.clear();
    return value;
  }
  Client& client;
  uint32_t next_qpn = 0x10'0000;
  std::map<uint32_t, Instant> asked;
  std::vector<Duration> took;
};

TEST_CASE("a flood from spoofed sources is bounded, and honest peers connect (threat:A17)") {
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
  Honest waits(client);
  for (int i = 0; i < 100; ++i) waits.connect(server), net.run(Duration::from_us(100));
  const Duration idle = waits.percentile_99();
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
    if (i % 5'000 != 0) continue;
    ++honest;
    waits.connect(server);  // answered while the flood goes on
  }
  net.run(Duration::from_ms(1));
  CHECK(server.node.agent.count(AgentCount::evicted) > flood / 2);
  // Half-open ones, those of the honest, and those whose end the application has yet to take, which
  // it does after each hundred.
  CHECK(most <= 512 + 100 + honest + 100);
  CHECK(client.log == Log(100 + honest, EventKind::reply));
  const Duration flooded = waits.percentile_99();
  std::printf("an honest connect: p99 %lld us, %lld us under the flood\n",
              static_cast<long long>(idle.us()), static_cast<long long>(flooded.us()));
  CHECK(flooded <= idle * 2);
  CHECK(grown <= 1u << 20);
  std::printf("%zu bytes grown at most under a flood of %llu requests\n", grown,
              static_cast<unsigned long long>(flood));
}

TEST_CASE("many connections over a bad network: each ends, nothing is left (C-CM-106, C-CM-107)") {
  const uint64_t seed = 0x5eed;
  for (const CmFaults faults :
       {CmFaults{}, CmFaults{100'000, 50'000, 50'000}, CmFaults{300'000, 300'000, 300'000}}) {
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
    std::map<EventKind, uint64_t> events;
    for (const EventKind kind : client.log) ++events[kind];
    CHECK(events[EventKind::reply] + events[EventKind::rejected] + events[EventKind::unreachable] >=
          asked);
    CHECK(events[EventKind::reply] > asked * 99 / 100);
    CHECK(events[EventKind::reply] >= events[EventKind::disconnected]);
    CHECK(client.node.agent.connections() == 0);
    CHECK(server.node.agent.connections() == 0);
    CHECK(client.node.agent.next_deadline().is_never());
    CHECK(server.node.agent.next_deadline().is_never());
  }
}

TEST_CASE(
    "responses to unauthenticated senders are bounded, MADs of own connections are not (A17)") {
  CmNet net(1);
  Server server(net.add());
  cm::Agent& agent = server.node.agent;
  for (uint32_t i = 1; i <= 10'000; ++i) {
    cm::Dreq end{};
    end.local_id = i;
    end.remote_id = i;
    net.give(server.node, Gid::from_ipv4(10, 9, 9, 9), cm::make(end, i));
  }
  constexpr size_t kAnswers = 256;
  CHECK(agent.count(AgentCount::sent) == kAnswers);
  CHECK(agent.count(AgentCount::answers_dropped) == 10'000 - kAnswers);
  (void)*server.node.connect(net.add(), kService, 1);
  size_t left = 0;
  for (; const roce::ManagementDatagram* d = agent.next_datagram(); ++left)
    CHECK((kind_of(d->bytes) == Attribute::req) == (left == kAnswers));
  CHECK(left == kAnswers + 1);
}

TEST_CASE("repeated REPs get a bounded number of responses (A17)") {
  CmNet net(1);
  Server server(net.add());
  Client client(net.add());
  std::optional<cm::Mad> rep;
  net.filter = [&](const Gid&, const Gid& to, const cm::Mad& mad) {
    if (to == client.node.address) rep = mad;
    return true;
  };
  (void)*client.node.connect(server.node, kService, 0x77);
  net.run(Duration::from_ms(1));
  REQUIRE(client.log == Log{EventKind::reply});
  REQUIRE(rep);
  for (int i = 0; i < 10'000; ++i) net.give(client.node, server.node.address, *rep);
  size_t left = 0;
  while (client.node.agent.next_datagram() != nullptr) ++left;
  CHECK(left == 256);
}

}  // namespace
}  // namespace weft::test
