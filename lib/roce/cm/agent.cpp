// SPDX-License-Identifier: BSD-3-Clause
// What the application asks for, what the clock asks for, and the life of connections. What the
// network asks for is in receive.cpp, how it is put into words in speak.cpp.
#include "lib/roce/cm/agent.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"

namespace weft::cm {

namespace {

constexpr uint8_t bit(EventKind kind) { return static_cast<uint8_t>(1u << static_cast<int>(kind)); }
constexpr uint8_t kShortestWait = 12, kLongestWait = 21;  // 17 ms, 8.6 s: whatever a peer asks for

bool connected(State state) {
  return state == State::established || state == State::dreq_sent || state == State::rep_sent;
}

Error gone() { return {Code::bad_state, "the connection is gone: take the event that says why"}; }

}  // namespace

std::string_view name(AgentCount count) noexcept {
  constexpr std::string_view kNames[] = {
      "cm_received",   "cm_sent",       "cm_repeated",        "cm_malformed", "cm_strangers",
      "cm_bad_source", "cm_duplicates", "cm_unexpected",      "cm_refused",   "cm_stale",
      "cm_evicted",    "cm_expired",    "cm_answers_dropped", "cm_no_memory"};
  static_assert(std::size(kNames) == static_cast<size_t>(AgentCount::end_));
  return kNames[static_cast<size_t>(count)];
}

Agent::Agent(const AgentConfig& config, base::SecureRandom& random)
    : config_(config),
      random_(random),
      wheel_(config.start),
      questions_(config.questions_at_once) {}

Agent::~Agent() = default;

// ---- the application asks -----------------------------------------------------------------------

Result<void> Agent::listen(uint64_t service_id, Inbox& inbox) {
  if (!services_.emplace(service_id, &inbox).second)
    return Error{Code::address_in_use, "this device listens on that port already"};
  return {};
}

void Agent::stop_listening(uint64_t service_id) { services_.erase(service_id); }

Result<uint32_t> Agent::connect(const Gid& peer, uint64_t service_id, const Offer& offer,
                                Inbox& inbox, Instant now) {
  if (offer.private_data.size() > kRequestPrivateData)
    return Error{Code::invalid_argument, "the private data of connect() has at most 56 bytes"};
  if (connections_.size() >= config_.max_connections)
    return Error{Code::no_memory, "the device has all its connections in use"};
  Connection& c = *create(State::req_sent, peer);
  base::Undo undo([&] { destroy(c); });
  c.active = true;
  c.inbox = &inbox;
  c.qpn = offer.qpn;
  c.service_id = service_id;
  c.transaction = random_.next64();
  c.ack_timeout = offer.ack_timeout;
  send_question(c, make(request_of(c, offer), c.transaction), now);
  undo.forget();
  return c.id;
}

void Agent::move(uint32_t id, Inbox& inbox) {
  Connection* const c = find(id);
  if (c == nullptr) return;
  if (c->inbox->line.remove(*c)) inbox.line.push(*c);
  c->inbox = &inbox;
}

Result<Connection*> Agent::in_state(uint32_t id, State state, const char* call) {
  Connection* const c = find(id);
  if (c == nullptr || c->state == State::timewait) return gone();
  if (c->state != state)
    return Error{Code::bad_state,
                 std::string(call) + " does not fit what has been said on this connection"};
  return c;
}

Result<void> Agent::accept(uint32_t id, const Offer& offer, Instant now) {
  if (offer.private_data.size() > sizeof(Rep::private_data))
    return Error{Code::invalid_argument, "the private data of accept() has at most 196 bytes"};
  const Result<Connection*> found = in_state(id, State::req_received, "accept()");
  if (!found) return found.error();
  Connection& c = **found;
  send_retried(c, make(reply_of(c, offer), c.transaction), c.wait, c.tries, now);
  c.qpn = offer.qpn;
  c.state = State::rep_sent;
  return {};
}

Result<void> Agent::reject(uint32_t id, Reason reason, std::span<const std::byte> data,
                           Instant now) {
  if (data.size() > sizeof(Rej::private_data))
    return Error{Code::invalid_argument, "the private data of reject() has at most 148 bytes"};
  Connection* const c = find(id);
  if (c != nullptr && c->state == State::sidr_received) return refuse_service(*c, data, now);
  if (c == nullptr || (c->state != State::req_received && c->state != State::rep_received))
    return gone();
  const Answered what = c->active ? Answered::rep : Answered::req;
  const Mad rej = rejection(*c, what, reason, data);
  send(c->peer, rej);
  // A request that comes again is answered again, if there is memory: it stays half-open for that.
  c->sent.reset();
  (void)base::memory_permitting([&] { c->sent = std::make_unique<Mad>(rej); });
  c->orphan = true;
  enter_timewait(*c, now);
  return {};
}

Result<void> Agent::confirm(uint32_t id, Instant now) {
  const Result<Connection*> found = in_state(id, State::rep_received, "confirm()");
  if (!found) return found.error();
  Connection& c = **found;
  wheel_.remove(c.timer);
  c.state = State::established;
  send(c.peer, readiness(c));
  return (void)now, Result<void>{};
}

Result<void> Agent::disconnect(uint32_t id, Instant now) {
  Connection* const c = find(id);
  if (c == nullptr || c->state == State::timewait || c->state == State::dreq_sent) return {};
  if (!connected(c->state))
    return Error{Code::bad_state, "disconnect() needs a connection that is established"};
  drop_half_open(*c);
  send_dreq(*c, now);
  return {};
}

void Agent::release(uint32_t id, Instant now) noexcept {
  Connection* const c = find(id);
  if (c == nullptr || c->orphan) return;
  if (c->inbox != nullptr) c->inbox->line.remove(*c);
  c->inbox = nullptr;
  c->pending = 0;
  c->heard.reset();
  c->orphan = true;
  switch (c->state) {
    case State::req_sent:
      if (!c->in_line.listed) send(c->peer, rejection(*c, Answered::req, Reason::timeout));
      [[fallthrough]];
    case State::sidr_sent:
      finish_question(*c, now);
      return destroy(*c);
    case State::rep_received:
    case State::req_received:
    case State::sidr_received:
      c->orphan = false;
      return (void)reject(id, Reason::consumer, {}, now);
    case State::rep_sent:
    case State::established:
      drop_half_open(*c);
      return send_dreq(*c, now);
    case State::timewait:
      if (c->timewait_over) destroy(*c);
      return;
    case State::dreq_sent:
      return;
  }
}

bool Agent::next(Inbox& inbox, Event& event) noexcept {
  if (inbox.line.empty()) return false;
  Connection& c = inbox.line.pop();
  event.kind = static_cast<EventKind>(std::countr_zero(c.pending));
  c.pending = static_cast<uint8_t>(c.pending & ~bit(event.kind));
  c.told = true;
  event.id = c.id;
  event.peer = c.peer;
  event.service_id = c.service_id;
  event.reason = c.reason;
  event.mad = std::move(c.heard);
  if (c.pending != 0)
    inbox.line.push(c);
  else if (c.timewait_over)
    destroy(c);
  return true;
}

// ---- the clock asks -----------------------------------------------------------------------------

void Agent::expire(Instant now) noexcept {
  while (base::TimerNode* node = wheel_.pop_expired(now))
    on_timer(static_cast<ConnectionTimer*>(node)->owner, now);
}

//= roce:C-CM-107
void Agent::on_timer(Connection& c, Instant now) {
  switch (c.state) {
    case State::req_sent:
    case State::rep_sent:
    case State::dreq_sent:
    case State::sidr_sent:
      if (c.tries != 0) {
        --c.tries;
        add(AgentCount::repeated);
        send(c.peer, c.state == State::dreq_sent ? farewell(c) : *c.sent);
        return arm(c, now + time_of(c.wait));
      }
      add(AgentCount::expired);
      if (c.state == State::dreq_sent) return end(c, EventKind::disconnected, now);
      if (c.state == State::sidr_sent) return end(c, EventKind::unreachable, now);
      send(c.peer, rejection(c, c.active ? Answered::req : Answered::rep, Reason::timeout));
      return end(c, EventKind::unreachable, now);
    case State::rep_received:
      send(c.peer, rejection(c, Answered::rep, Reason::timeout));
      [[fallthrough]];
    case State::req_received:
    case State::sidr_received:
      add(AgentCount::expired);
      return end(c, EventKind::unreachable, now);
    case State::timewait:
      c.timewait_over = true;
      if (c.orphan || c.pending == 0) destroy(c);
      return;
    case State::established:
      return;
  }
}

void Agent::arm(Connection& c, Instant deadline) noexcept {
  wheel_.remove(c.timer);
  wheel_.insert(c.timer, deadline);
}

// ---- connections come and go --------------------------------------------------------------------

Connection* Agent::find(uint32_t id) noexcept {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

// Their names cannot be guessed, so nobody off the path can speak for the other side.
Connection* Agent::create(State state, const Gid& peer) {
  uint32_t id = 0;
  while (id == 0 || connections_.contains(id)) id = random_.next32();
  auto made = std::make_unique<Connection>(id, state, peer);
  made->wait = config_.response_timeout;
  made->tries = config_.retries;
  return connections_.emplace(id, std::move(made)).first->second.get();
}

void Agent::adopt_peer(Connection& c, uint32_t peer_id, QpNum peer_qpn) {
  const auto [by_qpn, is_new] = by_peer_qpn_.try_emplace({c.peer, peer_qpn.value}, &c);
  base::Undo undo([this, at = by_qpn, fresh = is_new] {
    if (fresh) by_peer_qpn_.erase(at);
  });
  by_peer_id_[{c.peer, peer_id}] = &c;
  undo.forget();
  by_qpn->second = &c;
  c.peer_id = peer_id;
  c.peer_qpn = peer_qpn;
}

void Agent::forget_peer(Connection& c) noexcept {
  const auto found = by_peer_qpn_.find({c.peer, c.peer_qpn.value});
  if (found != by_peer_qpn_.end() && found->second == &c) by_peer_qpn_.erase(found);
}

void Agent::destroy(Connection& c) noexcept {
  drop_half_open(c);
  wheel_.remove(c.timer);
  if (c.inbox != nullptr) c.inbox->line.remove(c);
  forget_peer(c);
  const auto found = by_peer_id_.find({c.peer, c.peer_id});
  if (found != by_peer_id_.end() && found->second == &c) by_peer_id_.erase(found);
  const auto finish_question = by_request_.find({c.peer, c.peer_id});
  if (finish_question != by_request_.end() && finish_question->second == &c)
    by_request_.erase(finish_question);
  connections_.erase(c.id);
}

void Agent::drop_half_open(Connection& c) noexcept {
  if (half_open_.remove(c)) --half_opens_;
}

// A flood pushes out the oldest, not the newest: who is honest is asked and answers before its turn
// comes. //= threat:A17
void Agent::evict_oldest() {
  while (half_opens_ >= config_.max_half_open) {
    Connection& oldest = *half_open_.front();
    add(AgentCount::evicted);
    if (oldest.told && !oldest.orphan)
      end(oldest, EventKind::unreachable, {});
    else
      destroy(oldest);
  }
}

void Agent::raise_event(Connection& c, EventKind kind) noexcept {
  if (c.orphan) return;
  c.pending = static_cast<uint8_t>(c.pending | bit(kind));
  const bool first = c.inbox->line.empty();
  c.inbox->line.push(c);
  if (first && c.inbox->wake != nullptr) c.inbox->wake(c.inbox->context);
}

// The last word to the application. One that it has not heard of goes as if it had never been.
void Agent::end(Connection& c, EventKind kind, Instant now) noexcept {
  finish_question(c, now);
  if (!c.active && !c.told) return destroy(c);
  c.pending = static_cast<uint8_t>(c.pending & ~bit(EventKind::reply));
  if (kind != EventKind::rejected && kind != EventKind::served) c.heard.reset();
  c.sent.reset();
  const bool was_connected = connected(c.state) || c.state == State::rep_received;
  drop_half_open(c);
  raise_event(c, kind);
  if (was_connected && kind == EventKind::disconnected) return enter_timewait(c, now);
  wheel_.remove(c.timer);
  forget_peer(c);
  c.state = State::timewait;
  c.timewait_over = true;
  if (c.orphan) destroy(c);
}

// What was on its way when it ended arrives while its name is still known. The number of its queue
// pair does not come again for longer than that (Engine::choose_number). //= roce:C-CM-107
void Agent::enter_timewait(Connection& c, Instant now) noexcept {
  forget_peer(c);
  c.state = State::timewait;
  arm(c, now + time_of(std::min(c.ack_timeout, kLongestWait)) * 2);
}

void Agent::send_retried(Connection& c, const Mad& mad, uint8_t wait, uint8_t tries, Instant now) {
  c.sent = std::make_unique<Mad>(mad);
  c.wait = std::clamp(wait, kShortestWait, kLongestWait);
  c.tries = tries;
  send(c.peer, mad);
  arm(c, now + time_of(c.wait));
}

void Agent::send_question(Connection& c, const Mad& question, Instant now) {
  c.sent = std::make_unique<Mad>(question);
  if (!questions_.begin(c)) return;
  send(c.peer, question);
  arm(c, now + time_of(c.wait));
}

// Its question is answered, or is not to be any more: the next one's turn.
void Agent::finish_question(Connection& c, Instant now) noexcept {
  Connection* const next = questions_.finish(c);
  if (next == nullptr) return;
  send(next->peer, *next->sent);
  arm(*next, now + time_of(next->wait));
}

}  // namespace weft::cm
