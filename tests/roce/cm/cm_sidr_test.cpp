// SPDX-License-Identifier: BSD-3-Clause
// SIDR between two agents: resolved, rejected, lost, repeated, requested by unknown senders and by
// too many.
#include "lib/roce/cm/ip_addressing.hpp"
#include "tests/support/cm_parties.hpp"

namespace weft::test {
namespace {

constexpr uint64_t kDatagrams = cm::kPortSpaceUdp | 7174;
// Offsets of the fields of IBTA 12.11.
static_assert(offsetof(cm::SidrReq, service_id) == 8 && offsetof(cm::SidrReq, private_data) == 16);
static_assert(offsetof(cm::SidrRep, status) == 4 && offsetof(cm::SidrRep, qpn) == 8 &&
              offsetof(cm::SidrRep, service_id) == 12 && offsetof(cm::SidrRep, qkey) == 20 &&
              offsetof(cm::SidrRep, info) == 24 && offsetof(cm::SidrRep, private_data) == 96);

constexpr Duration kSoon = Duration::from_ms(1);

std::vector<std::byte> bytes(size_t n) { return std::vector<std::byte>(n, std::byte{'x'}); }

// Both sides log their events.
struct Service {
  explicit Service(CmNet& net) : server(net.add()), client(net.add()) {
    REQUIRE(server.agent.listen(kDatagrams, server.inbox));
    server.on_event = [this](Event& event) {
      asked.push_back(event.kind);
      if (event.kind != EventKind::request) return;
      id = event.id;
      question = *event.mad;
      if (serves) REQUIRE(serve());
    };
    client.on_event = [this](Event& event) {
      told.push_back(event.kind);
      reason = event.reason;
      if (event.mad) answer = *event.mad;
      client.agent.release(event.id, client.net.now);
    };
  }
  Result<void> serve() {
    return server.agent.serve(id, QpNum{0x1234}, 0x01234567, bytes(136), server.net.now);
  }
  Result<uint32_t> ask(uint64_t service = kDatagrams, size_t data = 180) {
    return client.agent.find_service(server.address, service, 4000, bytes(data), client.inbox,
                                     client.net.now);
  }
  void check_answer() const {
    const cm::SidrRep& rep = cm::body_of<cm::SidrRep>(answer);
    CHECK(rep.qpn == 0x1234u);
    CHECK(rep.qkey == 0x01234567u);
    CHECK(rep.service_id == kDatagrams);
    CHECK(rep.private_data.back() == std::byte{'x'});
  }

  Node &server, &client;
  bool serves = true;
  uint32_t id = 0;
  Reason reason = Reason::none;
  cm::Mad question{}, answer{};
  Log asked, told;
};

TEST_CASE("SIDR: a service id is resolved (C-CM-106)") {
  CmNet net(1);
  Service s(net);
  REQUIRE(s.ask());
  net.run(kSoon);
  CHECK(s.told == Log{EventKind::served});
  CHECK(s.asked == Log{EventKind::request});
  s.check_answer();
  const cm::SidrReq& req = cm::body_of<cm::SidrReq>(s.question);
  const auto ip = cm::ip_addresses(req);
  REQUIRE(ip);
  CHECK(ip->source == s.client.address);
  CHECK(ip->destination == s.server.address);
  CHECK(ip->source_port == 4000);
  CHECK(req.private_data.back() == std::byte{'x'});
  net.run(Duration::from_s(2));
  CHECK(s.client.agent.connections() == 0);
  CHECK(s.server.agent.connections() == 0);
  CHECK(s.server.agent.next_deadline().is_never());
}

TEST_CASE("SIDR: requests are rejected with a reason") {
  CmNet net(2);
  Service s(net);
  REQUIRE(s.ask(kDatagrams + 1));
  net.run(kSoon);
  CHECK(s.told == Log{EventKind::rejected});
  CHECK(s.reason == Reason::invalid_service);
  // A listener of the other kind does not match.
  REQUIRE(s.server.agent.listen(cm::service_of(7), s.server.inbox));
  REQUIRE(s.ask(cm::service_of(7)));
  REQUIRE(s.client.agent.connect(s.server.address, kDatagrams, {.qpn = QpNum{9}, .path_mtu = 1024},
                                 s.client.inbox, net.now));
  net.run(kSoon);
  CHECK(s.told == Log(3, EventKind::rejected));
  CHECK(s.reason == Reason::invalid_service);
  CHECK(s.asked.empty());
  s.serves = false;
  REQUIRE(s.ask());
  net.run(kSoon);
  REQUIRE(s.server.agent.reject(s.id, Reason::consumer, bytes(136), net.now));
  net.run(kSoon);
  CHECK(s.reason == Reason::consumer);
  CHECK(cm::body_of<cm::SidrRep>(s.answer).private_data.back() == std::byte{'x'});
  // release() rejects.
  REQUIRE(s.ask());
  net.run(kSoon);
  s.server.agent.release(s.id, net.now);
  net.run(kSoon);
  CHECK(s.told == Log(5, EventKind::rejected));
  CHECK(s.server.agent.serve(s.id, QpNum{5}, 1, {}, net.now).error().code == Code::bad_state);
  CHECK(s.ask(kDatagrams, 181).error().code == Code::invalid_argument);
}

TEST_CASE("SIDR: lost requests are repeated, duplicates get the same response") {
  CmNet net(3);
  Service s(net);
  int questions = 0, answers = 0;
  net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    if (kind_of(mad) == Attribute::sidr_req) return ++questions > 2;
    return ++answers > 1;  // the first one too
  };
  REQUIRE(s.ask());
  net.run(Duration::from_s(2));
  CHECK(questions == 4);
  CHECK(s.told == Log{EventKind::served});
  CHECK(s.asked == Log{EventKind::request});  // the application gets one event
  s.check_answer();
  // A question that comes after all that is a new one.
  CHECK(s.server.agent.connections() == 0);
  net.give(s.server, s.client.address, s.question);
  net.run(kSoon);
  CHECK(s.asked == Log(2, EventKind::request));
}

TEST_CASE("SIDR: without a response the exchange expires") {
  CmNet net(4);
  Service s(net);
  int questions = 0, others = 0;
  net.filter = [&](const Gid&, const Gid&, const cm::Mad& mad) {
    ++(kind_of(mad) == Attribute::sidr_req ? questions : others);
    return false;
  };
  REQUIRE(s.ask());
  const Result<uint32_t> given_up = s.ask();
  REQUIRE(given_up);
  s.client.agent.release(*given_up, net.now);
  net.run(Duration::from_s(10));
  CHECK(s.told == Log{EventKind::unreachable});
  CHECK(questions == 16 + 1);
  CHECK(others == 0);  // no peer to send a DREQ to
  CHECK(s.client.agent.connections() == 0);
  CHECK(s.client.agent.next_deadline().is_never());
}

TEST_CASE("SIDR: a response is accepted only from the peer, and once (A17)") {
  CmNet net(5);
  Service s(net);
  net.filter = [](const Gid&, const Gid&, const cm::Mad&) { return false; };
  const Result<uint32_t> id = s.ask();
  REQUIRE(id);
  cm::SidrRep rep{};
  rep.request_id = *id ^ 1;
  net.give(s.client, s.server.address, cm::make(rep, 1));
  CHECK(s.client.agent.count(AgentCount::unknown_id) == 1);
  rep.request_id = *id;
  net.give(s.client, Gid::from_ipv4(10, 9, 9, 9), cm::make(rep, 1));
  CHECK(s.client.agent.count(AgentCount::wrong_source) == 1);
  // Words of connections do not fit.
  net.give(s.client, s.server.address, cm::make(cm::Rep{.remote_id = *id}, 1));
  net.give(s.client, s.server.address, cm::make(cm::Rej{.remote_id = *id}, 1));
  net.give(s.client, s.server.address, cm::make(cm::Dreq{.remote_id = *id}, 1));
  net.run(kSoon);
  CHECK(s.told.empty());
  // SIDR MADs are invalid for a connection.
  const Result<uint32_t> connecting = s.client.connect(s.server, kService, 5);
  REQUIRE(connecting);
  net.give(s.client, s.server.address, cm::make(cm::SidrRep{.request_id = *connecting}, 1));
  net.run(kSoon);
  CHECK(s.told.empty());
  net.give(s.client, s.server.address, cm::make(rep, 1));
  net.give(s.client, s.server.address, cm::make(rep, 1));
  net.run(kSoon);
  CHECK(s.told == Log{EventKind::served});
}

TEST_CASE("SIDR: a flood of requests takes bounded memory, answered or not (A17)") {
  for (const bool serves : {true, false}) {
    CmNet net(6);
    Service s(net);
    s.serves = serves;
    const uint32_t most = cm::AgentConfig{}.max_half_open;
    for (uint32_t i = 1; i <= 20'000; ++i) {
      cm::SidrReq req{};
      req.request_id = i;
      req.service_id = kDatagrams;
      const auto low = static_cast<uint8_t>(i), high = static_cast<uint8_t>(i >> 8);
      net.give(s.server, Gid::from_ipv4(11, 0, high, low), cm::make(req, i));
      if (i % 100 == 0) net.run(Duration::from_us(1));
      REQUIRE(s.server.agent.connections() <= 2 * most);
    }
    // No event follows after serve().
    if (serves) CHECK(s.asked == Log(s.asked.size(), EventKind::request));
    net.run(Duration::from_s(60));
    CHECK(s.server.agent.connections() == 0);
  }
}

}  // namespace
}  // namespace weft::test
