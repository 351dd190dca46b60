// SPDX-License-Identifier: BSD-3-Clause
// The connection manager with queue pairs that the program moves itself, as programs of librdmacm
// do: the attributes of each transition, establish(), rejection after the response, XRC; ids that
// have a port before they connect, and ids that move between channels.
#include <poll.h>

#include "tests/conformance/cm_party.hpp"

namespace weft::test {
namespace {

struct OwnSides {
  explicit OwnSides(Wire wire) : OwnSides(device_string(wire)) {}
  explicit OwnSides(const std::string& spec)
      : server(spec), client(spec), at_server(*server.channel.create_id()) {
    REQUIRE(at_server.listen(0));
  }
  CmId routed(uint16_t own_port = 0) const {
    return client.way_to(server, at_server.port(), CmService::connections, own_port);
  }
  CmParty server, client;
  CmId at_server;
};

CmQueuePair own_of(const QueuePair& qp) { return {.number = qp.number(), .type = qp.type()}; }

void move_itself(const CmId& id, const QueuePair& qp, std::initializer_list<QpState> states) {
  for (const QpState state : states) {
    const Result<QueuePairAttributes> attributes = id.attributes(state);
    REQUIRE(attributes);
    const Result<void> moved = qp.modify(*attributes);
    if (!moved) FAIL(moved.error().message);
  }
}

constexpr auto kToRts = {QpState::init, QpState::rtr, QpState::rts};

void own_queue_pairs(Wire wire, QpType at_client, QpType at_server) {
  OwnSides s(wire);
  const QueuePair client = s.client.queue_pair(at_client), server = s.server.queue_pair(at_server);
  const CmId id = s.routed();
  CHECK(id.attributes(QpState::rtr).error().code == Code::bad_state);
  CHECK(id.attributes(QpState::err).error().code == Code::invalid_argument);
  CHECK(id.establish().error().code == Code::bad_state);
  REQUIRE(id.connect(own_of(client), {.responder_resources = 3, .initiator_depth = 5}));

  const CmEvent asked = s.server.expect(CmEventType::connect_request);
  REQUIRE(asked.queue_pair);
  CHECK(asked.queue_pair->number == client.number());
  CHECK(asked.queue_pair->type == at_client);
  move_itself(asked.id, server, kToRts);
  CmQueuePair wrong = own_of(server);
  wrong.type = at_server == QpType::uc ? QpType::rc : QpType::uc;
  CHECK(asked.id.accept(wrong).error().code == Code::invalid_argument);
  REQUIRE(asked.id.accept(own_of(server)));

  const CmEvent answered = s.client.expect(CmEventType::connect_response);
  REQUIRE(answered.queue_pair);
  CHECK(answered.queue_pair->number == server.number());
  CHECK_FALSE(s.server.channel.next());  // nothing has been established yet
  move_itself(id, client, kToRts);
  REQUIRE(id.establish());
  CHECK(s.server.expect(CmEventType::established).id == asked.id);
  CHECK(client.query().sq_psn == server.query().rq_psn);
  if (at_client == QpType::rc) {
    CHECK(server.query().max_dest_rd_atomic == uint8_t{5});
    CHECK(server.query().max_rd_atomic == uint8_t{3});
    CHECK(client.query().max_dest_rd_atomic == uint8_t{3});
  }
  REQUIRE(id.disconnect());
  CHECK(client.state() == QpState::rts);  // up to the program
  s.server.expect(CmEventType::disconnected);
  s.client.expect(CmEventType::disconnected);
}

void own_reliable(Wire wire) { own_queue_pairs(wire, QpType::rc, QpType::rc); }
WEFT_ON_OUR_PORTS(own_reliable, "the program moves its RC queue pairs (C-CM-106)")
void own_unreliable(Wire wire) { own_queue_pairs(wire, QpType::uc, QpType::uc); }
WEFT_ON_WIRE(own_unreliable, "the program moves its UC queue pairs (C-CM-106)", udp)
void own_extended(Wire wire) { own_queue_pairs(wire, QpType::xrc_initiator, QpType::xrc_target); }
WEFT_ON_WIRE(own_extended, "the program moves its XRC queue pairs (C-CM-106)", udp)

TEST_CASE("a response is rejected") {
  OwnSides s(Wire::udp);
  const QueuePair client = s.client.queue_pair(QpType::rc),
                  server = s.server.queue_pair(QpType::rc);
  const CmId id = s.routed();
  REQUIRE(id.connect(own_of(client)));
  const CmEvent asked = s.server.expect(CmEventType::connect_request);
  REQUIRE(asked.id.accept(own_of(server)));
  s.client.expect(CmEventType::connect_response);
  REQUIRE(id.reject());
  CHECK(s.server.expect(CmEventType::rejected).reason == kCmConsumer);
}

TEST_CASE("a bound id has its port when it connects and when it listens") {
  OwnSides s(Wire::udp);
  constexpr uint16_t kPort = 41'234;
  const CmId id = s.routed(kPort);
  CHECK(id.port() == kPort);
  CHECK(id.bind(kPort).error().code == Code::bad_state);
  REQUIRE(id.connect(own_of(s.client.queue_pair(QpType::rc))));
  CHECK(s.server.expect(CmEventType::connect_request).id.peer_port() == kPort);
  const CmId listener = *s.client.channel.create_id();
  REQUIRE(listener.bind(0));
  const uint16_t chosen = listener.port();
  CHECK(chosen != 0);
  REQUIRE(listener.listen(0));
  CHECK(listener.port() == chosen);
}

TEST_CASE("ids and what they were told move to another channel") {
  OwnSides s(Wire::udp);
  const CmChannel next = *CmChannel::create(s.server.device);
  const CmId id = s.routed();
  REQUIRE(id.connect(own_of(s.client.queue_pair(QpType::rc))));
  pollfd fd{s.server.channel.fd(), POLLIN, 0};
  REQUIRE(poll(&fd, 1, 10'000) == 1);
  // The request has arrived, and moves with its listener.
  REQUIRE(s.at_server.migrate(next));
  CHECK_FALSE(s.server.channel.next());
  const CmEvent asked = CmParty::expect(next, CmEventType::connect_request);
  CHECK(asked.listener == s.at_server);
  // Its id moves back, and its events with it.
  REQUIRE(asked.id.migrate(s.server.channel));
  REQUIRE(asked.id.accept(own_of(s.server.queue_pair(QpType::rc))));
  s.client.expect(CmEventType::connect_response);
  REQUIRE(id.establish());
  CHECK(s.server.expect(CmEventType::established).id == asked.id);
  CHECK_FALSE(next.next());
  CHECK(id.migrate(next).error().code == Code::invalid_argument);  // of another device
  CHECK(id.migrate(CmChannel()).error().code == Code::invalid_argument);
}

}  // namespace
}  // namespace weft::test
