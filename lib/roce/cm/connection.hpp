// SPDX-License-Identifier: BSD-3-Clause
// One connection as the agent keeps it, or one question for a service of datagrams, which has a
// life of two words: the state of IBTA 12.9, what was said last in both directions, and what the
// application has not been told yet.
#pragma once

#include <memory>

#include "lib/base/line.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/roce/cm/mad.hpp"

namespace weft::cm {

enum class State : uint8_t {
  req_sent,       // we finish_question
  rep_received,   // and may: the application makes its queue pair ready
  req_received,   // we were finish_question, the application thinks
  rep_sent,       // it said yes
  established,    //
  dreq_sent,      // we disconnect
  sidr_sent,      // we finish_question for a service of datagrams
  sidr_received,  // we were finish_question for one, the application thinks
  timewait,       // over; what still comes of it is answered, its number is not used again
};

// What the application hears of a connection, in the order in which it can happen.
enum class EventKind : uint8_t {
  request,       // somebody asks: accept() or reject()
  reply,         // our request was accepted: make the queue pair ready, then confirm()
  established,   // the other side is ready
  rejected,      // `reason` says why; the connection is gone
  unreachable,   // no answer came; the connection is gone
  disconnected,  // the other side has ended it, or our disconnect() is done
  served,        // the datagram in `mad` names the queue pair that serves; all is said
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

  const uint32_t id;
  State state;
  bool active = false;  // the first word was ours
  bool told = false;    // the application knows of it
  bool orphan = false;  // the application has let go of it: nothing is told any more
  bool asking =
      false;  // one of those that the other side is finish_question at once (questions.hpp)
  bool timewait_over = false;  // gone as soon as the last event is told
  uint8_t pending = 0;         // events to raise_event, a bit each
  uint8_t tries = 0;           // transmissions of what is being sent that are left
  uint8_t wait = 0;            // exponent of the time between two of them
  uint8_t ack_timeout = 0;
  Reason reason = Reason::none;
  Gid peer;
  uint32_t peer_id = 0;
  QpNum qpn, peer_qpn;
  uint64_t transaction = 0;
  uint64_t service_id = 0;
  Inbox* inbox = nullptr;
  std::unique_ptr<Mad> sent;   // to repeat until it is answered
  std::unique_ptr<Mad> heard;  // what the next event is about
  Instant since;               // the application thinks
  ConnectionTimer timer;
  base::LineLink<Connection> ready, half_open, in_line;
};

// Where the events of some connections wait. `wake` is called when one comes and none was there.
struct Inbox {
  base::Line<Connection, &Connection::ready> line;
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

}  // namespace weft::cm
