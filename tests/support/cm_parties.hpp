// SPDX-License-Identifier: BSD-3-Clause
// Applications of connection managers (cm_net.hpp) for tests: one that accepts, one that connects;
// each logs its events.
#pragma once

#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/cm_net.hpp"

namespace weft::test {

using cm::AgentCount;
using cm::Attribute;
using cm::Event;
using cm::EventKind;
using cm::Reason;
using Node = CmNet::Node;

constexpr uint64_t kService = cm::kPortSpaceTcp | 7174;

inline Attribute kind_of(const cm::Mad& mad) {
  return static_cast<Attribute>(uint16_t{cm::header_of(mad).attribute});
}

// Accepts all requests, and logs its events.
struct Server {
  Server(Node& where, uint64_t service = kService) : node(where) {
    REQUIRE(node.agent.listen(service, node.inbox));
    node.on_event = [this](Event& event) { handle(event); };
  }
  void handle(Event& event) {
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
    node.on_event = [this](Event& event) { handle(event); };
  }
  void handle(Event& event) {
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

}  // namespace weft::test
