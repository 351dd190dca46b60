// SPDX-License-Identifier: BSD-3-Clause
// Steps that the handlers have in common, timers, and the invariant of the agent.
#include "lib/roce/cm/agent_state.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::cm {

namespace {
constexpr uint8_t kMinTimeout = 12, kMaxTimeout = 21;  // 17 ms, 8.6 s: whatever a peer requests
}  // namespace

std::string_view name(AgentCount count) noexcept {
  constexpr std::string_view kNames[] = {
      "cm_received",   "cm_sent",       "cm_repeated",   "cm_malformed",       "cm_strangers",
      "cm_bad_source", "cm_duplicates", "cm_unexpected", "cm_refused",         "cm_deferred",
      "cm_stale",      "cm_evicted",    "cm_expired",    "cm_answers_dropped", "cm_no_memory"};
  static_assert(std::size(kNames) == static_cast<size_t>(AgentCount::end_));
  return kNames[static_cast<size_t>(count)];
}

void send(AgentState& agent, const Gid& to, const Mad& mad) noexcept {
  agent.count(agent.outbox.push(to, mad) ? AgentCount::sent : AgentCount::answers_dropped);
}

void send_response(AgentState& agent, const Gid& to, const Mad& mad) noexcept {
  agent.count(agent.outbox.push_bounded(to, mad) ? AgentCount::sent : AgentCount::answers_dropped);
}

void send_rej(AgentState& agent, const Gid& to, const Mad& mad, uint32_t peer_id, Answered what,
              Reason reason) {
  agent.count(AgentCount::refused);
  send_response(agent, to, make_rej(mad, peer_id, what, reason));
}

void send_repeated(AgentState& agent, Connection& c, const Mad& mad, uint8_t timeout,
                   uint8_t retries, Instant now) {
  c.sent = std::make_unique<Mad>(mad);
  c.retry_timeout = std::clamp(timeout, kMinTimeout, kMaxTimeout);
  c.retries_left = retries;
  send(agent, c.peer, mad);
  arm(agent, c, now + time_of(c.retry_timeout));
}

void send_request(AgentState& agent, Connection& c, const Mad& request, Instant now) {
  WEFT_DCHECK(c.state == State::req_sent || c.state == State::sidr_sent);
  c.sent = std::make_unique<Mad>(request);
  if (!agent.requests.begin(c)) return;
  send(agent, c.peer, request);
  arm(agent, c, now + time_of(c.retry_timeout));
}

void finish_request(AgentState& agent, Connection& c, Instant now) noexcept {
  Connection* const next = agent.requests.finish(c);
  if (next == nullptr) return;
  WEFT_DCHECK(next->sent != nullptr && !next->timer.armed());
  send(agent, next->peer, *next->sent);
  arm(agent, *next, now + time_of(next->retry_timeout));
}

void send_dreq(AgentState& agent, Connection& c, Instant now) noexcept {
  WEFT_DCHECK(is_connected(c.state) && !c.half_open.listed);
  c.state = State::dreq_sent;
  c.sent.reset();
  c.transaction = agent.random.next64();
  c.retries_left = agent.config.retries;
  c.retry_timeout = agent.config.response_timeout;
  send(agent, c.peer, make_dreq(c));
  arm(agent, c, now + time_of(c.retry_timeout));
}

Connection& create_connection(AgentState& agent, State state, const Gid& peer) {
  Connection& c = agent.table.create(state, peer, agent.config.slot, agent.random);
  c.retry_timeout = agent.config.response_timeout;
  c.retries_left = agent.config.retries;
  return c;
}

void destroy(AgentState& agent, Connection& c) noexcept {
  WEFT_DCHECK(!c.outstanding);
  agent.wheel.remove(c.timer);
  if (c.inbox != nullptr) c.inbox->queue.remove(c);
  agent.table.erase(c);
}

void arm(AgentState& agent, Connection& c, Instant deadline) noexcept {
  WEFT_DCHECK(!deadline.is_never());
  agent.wheel.remove(c.timer);
  agent.wheel.insert(c.timer, deadline);
}

// Under a flood of requests the oldest is evicted, not the newest: an honest peer's request is
// answered before it is the oldest.
void evict_half_open(AgentState& agent) {
  while (agent.table.half_open_count() >= agent.config.max_half_open) {
    Connection& oldest = *agent.table.oldest_half_open();
    agent.count(AgentCount::evicted);
    if (oldest.reported && !oldest.released)
      end(agent, oldest, EventKind::unreachable, {});
    else
      destroy(agent, oldest);
  }
}

void raise_event(Connection& c, EventKind kind) noexcept {
  if (c.released) return;
  WEFT_DCHECK(c.inbox != nullptr);
  c.pending_events = static_cast<uint8_t>(c.pending_events | event_bit(kind));
  const bool first = c.inbox->queue.empty();
  c.inbox->queue.push(c);
  if (first && c.inbox->wake != nullptr) c.inbox->wake(c.inbox->context);
}

void end(AgentState& agent, Connection& c, EventKind kind, Instant now) noexcept {
  WEFT_DCHECK(kind >= EventKind::rejected && c.state != State::timewait);
  finish_request(agent, c, now);
  if (!c.active && !c.reported) return destroy(agent, c);
  c.pending_events = static_cast<uint8_t>(c.pending_events & ~event_bit(EventKind::reply));
  if (kind != EventKind::rejected && kind != EventKind::served) c.event_mad.reset();
  c.sent.reset();
  const bool was_connected = is_connected(c.state) || c.state == State::rep_received;
  agent.table.remove_half_open(c);
  raise_event(c, kind);
  if (was_connected && kind == EventKind::disconnected) return enter_timewait(agent, c, now);
  agent.wheel.remove(c.timer);
  agent.table.forget_peer_qpn(c);
  c.state = State::timewait;
  c.timewait_over = true;
  if (c.released) destroy(agent, c);
}

// MADs that were in flight at the end arrive while the id is still known. The engine does not reuse
// the queue pair number for longer than that (QpNumbers). //= roce:C-CM-107
void enter_timewait(AgentState& agent, Connection& c, Instant now) noexcept {
  agent.table.forget_peer_qpn(c);
  c.state = State::timewait;
  arm(agent, c, now + time_of(std::min(c.ack_timeout, kMaxTimeout)) * 2);
}

void abandon(AgentState& agent, Connection& c, Instant now) noexcept {
  c.transaction = agent.random.next64();
  send(agent, c.peer, make_dreq(c));
  end(agent, c, EventKind::disconnected, now);
}

//= roce:C-CM-107
void on_timer(AgentState& agent, Connection& c, Instant now) {
  switch (c.state) {
    case State::req_sent:
    case State::rep_sent:
    case State::dreq_sent:
    case State::sidr_sent:
      if (c.retries_left != 0) {
        --c.retries_left;
        agent.count(AgentCount::repeated);
        WEFT_DCHECK((c.state == State::dreq_sent) == (c.sent == nullptr));
        send(agent, c.peer, c.state == State::dreq_sent ? make_dreq(c) : *c.sent);
        return arm(agent, c, now + time_of(c.retry_timeout));
      }
      agent.count(AgentCount::expired);
      if (c.state == State::dreq_sent) return end(agent, c, EventKind::disconnected, now);
      if (c.state == State::sidr_sent) return end(agent, c, EventKind::unreachable, now);
      send(agent, c.peer,
           make_rej(c, c.active ? Answered::req : Answered::rep, Reason::timeout,
                    agent.config.address));
      return end(agent, c, EventKind::unreachable, now);
    case State::rep_received:
      send(agent, c.peer, make_rej(c, Answered::rep, Reason::timeout, agent.config.address));
      [[fallthrough]];
    case State::req_received:
    case State::sidr_received:
      agent.count(AgentCount::expired);
      return end(agent, c, EventKind::unreachable, now);
    case State::timewait:
      c.timewait_over = true;
      if (c.released || c.pending_events == 0) destroy(agent, c);
      return;
    case State::established:
      return;
  }
}

void check_connection([[maybe_unused]] const AgentState& agent,
                      [[maybe_unused]] const Connection& c) noexcept {
#ifndef NDEBUG
  const State s = c.state;
  WEFT_DCHECK(c.id != 0 && agent.table.find(c.id) == &c);
  WEFT_DCHECK(c.ready.listed == (c.pending_events != 0));  // events wait in the inbox
  WEFT_DCHECK(c.inbox != nullptr || c.released);
  // Which side, by state.
  WEFT_DCHECK((s != State::req_sent && s != State::rep_received && s != State::sidr_sent) ||
              c.active);
  WEFT_DCHECK((s != State::req_received && s != State::rep_sent && s != State::sidr_received) ||
              !c.active);
  // Only requests count against, or wait for, the limit of the peer.
  const bool requests = s == State::req_sent || s == State::sidr_sent;
  WEFT_DCHECK(requests || (!c.outstanding && !c.queued.listed));
  WEFT_DCHECK(!c.outstanding || !c.queued.listed);
  // A MAD that is repeated, and its timer; a connection in use has none.
  WEFT_DCHECK((!requests && s != State::rep_sent) || c.sent != nullptr);
  WEFT_DCHECK(s != State::dreq_sent || c.sent == nullptr);
  WEFT_DCHECK(c.timer.armed() == (s != State::established && !c.queued.listed && !c.timewait_over));
  WEFT_DCHECK(!c.timewait_over || (s == State::timewait && c.pending_events != 0));
  // Half-open: passive, before the end of the handshake, or kept to repeat an answer.
  WEFT_DCHECK(!c.half_open.listed || !c.active);
  WEFT_DCHECK((s != State::req_received && s != State::rep_sent && s != State::sidr_received) ||
              c.half_open.listed);
  WEFT_DCHECK(!is_connected(s) || agent.table.find_by_peer_qpn(c.peer, c.peer_qpn.value) == &c);
#endif
}

void check_agent([[maybe_unused]] const AgentState& agent) noexcept {
#ifndef NDEBUG
  size_t half_open = 0, outstanding = 0, armed = 0;
  agent.table.visit([&](const Connection& c) {
    check_connection(agent, c);
    half_open += c.half_open.listed;
    outstanding += c.outstanding;
    armed += c.timer.armed();
  });
  WEFT_DCHECK(half_open == agent.table.half_open_count());
  WEFT_DCHECK(half_open <= agent.config.max_half_open);
  WEFT_DCHECK(outstanding == agent.requests.outstanding());
  WEFT_DCHECK(agent.wheel.empty() == (armed == 0));
  WEFT_DCHECK(agent.table.size() <= agent.config.max_connections);
#endif
}

}  // namespace weft::cm
