// SPDX-License-Identifier: BSD-3-Clause
// One connection of the agent, or one SIDR exchange (a lookup of a datagram service): the state of
// IBTA 12.9, the MAD to repeat, and the events that the application has not taken yet.
#pragma once

#include <memory>

#include "lib/base/line.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/roce/cm/mad.hpp"

namespace weft::cm {

enum class State : uint8_t {
  req_sent,       // connect(): REQ sent or queued (request_limit.hpp)
  rep_received,   // the peer accepted; the application sets up its queue pair
  req_received,   // the application decides
  rep_sent,       // the application accepted
  established,    //
  dreq_sent,      // disconnect()
  sidr_sent,      // find_service(): SIDR_REQ sent or queued
  sidr_received,  // the application decides
  timewait,       // over: late MADs are answered, its id is not reused
};

// Events of a connection for the application, in the order in which they can occur.
enum class EventKind : uint8_t {
  request,       // a peer requests a connection or service: accept(), serve() or reject()
  reply,         // our request was accepted: set up the queue pair, then confirm()
  established,   // the peer is ready
  rejected,      // `reason` says why; the connection is over
  unreachable,   // no response; the connection is over
  disconnected,  // by the peer, or our disconnect() completed
  served,        // the SIDR_REP in `mad` names the queue pair of the service; the exchange is over
};

struct Inbox;
struct Connection;

struct ConnectionTimer : base::TimerNode {
  explicit ConnectionTimer(Connection& whose) : owner(whose) {}
  Connection& owner;
};

struct Connection {
  Connection(uint32_t id, State state, const Gid& peer)
      : id(id), state(state), peer(peer), timer(*this) {}

  const uint32_t id;  // the local communication id
  State state;
  bool active = false;          // this side sent the request
  bool reported = false;        // the application took an event of it
  bool released = false;        // the application released it: no more events
  bool outstanding = false;     // its request counts against the limit of its peer (RequestLimit)
  bool wants_failover = false;  // the peer's request names an alternate path
  bool timewait_over = false;   // destroyed when its last event was taken
  uint8_t pending_events = 0;   // a bit per EventKind
  uint8_t retries_left = 0;     // of `sent`
  uint8_t retry_timeout = 0;    // exponent of the time between two transmissions
  uint8_t ack_timeout = 0;
  Transport transport = Transport::rc;
  Reason reason = Reason::none;
  Gid peer;
  uint32_t peer_id = 0;
  QpNum qpn, peer_qpn;
  uint64_t transaction = 0;
  uint64_t service_id = 0;
  Inbox* inbox = nullptr;
  std::unique_ptr<Mad> sent;       // repeated until it is answered
  std::unique_ptr<Mad> event_mad;  // for the next event
  Instant decision_since;          // since when the application decides
  ConnectionTimer timer;
  base::LineLink<Connection> ready, half_open, queued;
};

// The event queue of some connections. `wake` is called when an event is added to an empty one.
struct Inbox {
  base::Line<Connection, &Connection::ready> queue;
  void (*wake)(void* context) = nullptr;
  void* context = nullptr;
};

struct Event {
  EventKind kind = EventKind::request;
  uint32_t id = 0;
  Gid peer;
  uint64_t service_id = 0;
  Reason reason = Reason::none;
  std::unique_ptr<Mad> mad;  // REQ, REP, REJ, SIDR_REQ or SIDR_REP; null where there is none
};

constexpr uint8_t event_bit(EventKind kind) {
  return static_cast<uint8_t>(1u << static_cast<int>(kind));
}
// States in which a DREQ ends the connection.
constexpr bool is_connected(State state) {
  return state == State::established || state == State::dreq_sent || state == State::rep_sent;
}

}  // namespace weft::cm
