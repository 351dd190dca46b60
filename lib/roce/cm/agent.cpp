// SPDX-License-Identifier: BSD-3-Clause
// Calls of the application and of the engine; what they have in common with received MADs is in
// agent_state.cpp.
#include "lib/roce/cm/agent.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"

namespace weft::cm {

namespace {

Error over() { return {Code::bad_state, "the connection is over: take the event that says why"}; }

// Stores a MAD to answer repeated requests with, if there is memory.
void keep_response(Connection& c, const Mad& mad) noexcept {
  c.sent.reset();
  (void)base::memory_permitting([&] { c.sent = std::make_unique<Mad>(mad); });
}

}  // namespace

Agent::Agent(const AgentConfig& config, base::SecureRandom& random) : state_(config, random) {
  WEFT_CHECK(config.max_half_open != 0 && config.max_requests != 0);
}

Agent::~Agent() = default;

void Agent::on_datagram(std::span<const std::byte> bytes, const Gid& from, Instant now) noexcept {
  state_.count(AgentCount::received);
  Mad mad;
  if (check(bytes, mad) != MadError::none) return state_.count(AgentCount::malformed);
  if (!base::memory_permitting([&] { on_mad(state_, mad, from, now); }))
    state_.count(AgentCount::no_memory);
}

void Agent::on_first_request(QpNum number, const Gid& peer, QpNum peer_number, Instant) noexcept {
  Connection* const c = state_.table.find_by_peer_qpn(peer, peer_number.value);
  if (c != nullptr && c->qpn == number && c->state == State::rep_sent) on_rtu(state_, *c);
}

void Agent::expire(Instant now) noexcept {
  while (base::TimerNode* node = state_.wheel.pop_expired(now))
    on_timer(state_, static_cast<ConnectionTimer*>(node)->owner, now);
}

Result<void> Agent::listen(uint64_t service_id, Inbox& inbox) {
  if (!state_.services.emplace(service_id, &inbox).second)
    return Error{Code::address_in_use, "this device listens on that port already"};
  return {};
}

void Agent::stop_listening(uint64_t service_id, Instant now) noexcept {
  if (state_.services.erase(service_id) != 0) state_.closed_services.add(service_id, now);
}

Result<uint32_t> Agent::connect(const Gid& peer, uint64_t service_id, const Offer& offer,
                                Inbox& inbox, Instant now) {
  if (offer.private_data.size() > kRequestPrivateData)
    return Error{Code::invalid_argument, "the private data of connect() has at most 56 bytes"};
  if (state_.table.size() >= state_.config.max_connections)
    return Error{Code::no_memory, "the device has all its connections in use"};
  Connection& c = create_connection(state_, State::req_sent, peer);
  base::Undo undo([&] { destroy(state_, c); });
  c.active = true;
  c.inbox = &inbox;
  c.qpn = offer.qpn;
  c.transport = offer.transport;
  c.service_id = service_id;
  c.transaction = state_.random.next64();
  c.ack_timeout = offer.ack_timeout;
  const AgentConfig& config = state_.config;
  const Mad req = make_req(c, offer, config.address, {config.response_timeout, config.retries});
  send_request(state_, c, req, now);
  undo.forget();
  return c.id;
}

Result<uint32_t> Agent::find_service(const Gid& peer, uint64_t service_id, uint16_t source_port,
                                     std::span<const std::byte> data, Inbox& inbox, Instant now) {
  if (data.size() > kSidrPrivateData)
    return Error{Code::invalid_argument,
                 "the private data of find_service() has at most 180 bytes"};
  if (state_.table.size() >= state_.config.max_connections)
    return Error{Code::no_memory, "the device has all its connections in use"};
  Connection& c = create_connection(state_, State::sidr_sent, peer);
  base::Undo undo([&] { destroy(state_, c); });
  c.active = true;
  c.inbox = &inbox;
  c.service_id = service_id;
  c.transaction = state_.random.next64();
  send_request(state_, c, make_sidr_req(c, state_.config.address, source_port, data), now);
  undo.forget();
  return c.id;
}

void Agent::move(uint32_t id, Inbox& inbox) {
  Connection* const c = state_.table.find(id);
  if (c == nullptr || c->released) return;
  if (c->inbox->queue.remove(*c)) inbox.queue.push(*c);
  c->inbox = &inbox;
}

void Agent::move_service(uint64_t service_id, Inbox& inbox) {
  const auto service = state_.services.find(service_id);
  if (service == state_.services.end()) return;
  service->second = &inbox;
  state_.table.visit([&](Connection& c) {
    if (!c.active && !c.reported && !c.released && c.service_id == service_id) move(c.id, inbox);
  });
}

Result<Connection*> Agent::in_state(uint32_t id, State state, const char* call) const {
  Connection* const c = state_.table.find(id);
  if (c == nullptr || c->state == State::timewait) return over();
  if (c->state != state)
    return Error{Code::bad_state,
                 std::string(call) + " is invalid in the state of this connection"};
  return c;
}

Result<void> Agent::accept(uint32_t id, const Offer& offer, Instant now) {
  if (offer.private_data.size() > sizeof(Rep::private_data))
    return Error{Code::invalid_argument, "the private data of accept() has at most 196 bytes"};
  const Result<Connection*> found = in_state(id, State::req_received, "accept()");
  if (!found) return found.error();
  Connection& c = **found;
  WEFT_DCHECK(!c.active && c.half_open.listed);
  send_repeated(state_, c, make_rep(c, offer, state_.config.address), c.retry_timeout,
                c.retries_left, now);
  c.qpn = offer.qpn;
  c.state = State::rep_sent;
  return {};
}

Result<void> Agent::serve(uint32_t id, QpNum qpn, uint32_t qkey, std::span<const std::byte> data,
                          Instant now) {
  SidrRep rep{};
  if (data.size() > rep.private_data.size())
    return Error{Code::invalid_argument,
                 "the private data of accept() has at most 136 bytes for datagrams"};
  const Result<Connection*> found = in_state(id, State::sidr_received, "accept()");
  if (!found) return found.error();
  rep.request_id = (*found)->peer_id;
  rep.service_id = (*found)->service_id;
  rep.qpn = qpn.value;
  rep.qkey = qkey;
  std::copy(data.begin(), data.end(), rep.private_data.begin());
  send_sidr_rep(state_, **found, rep, now);
  return {};
}

Result<void> Agent::reject(uint32_t id, Reason reason, std::span<const std::byte> data,
                           Instant now) {
  if (data.size() > sizeof(Rej::private_data))
    return Error{Code::invalid_argument, "the private data of reject() has at most 148 bytes"};
  Connection* const c = state_.table.find(id);
  if (c != nullptr && c->state == State::sidr_received) {
    SidrRep rep{};
    if (data.size() > rep.private_data.size())
      return Error{Code::invalid_argument,
                   "the private data of reject() has at most 136 bytes for datagrams"};
    rep.request_id = c->peer_id;
    rep.service_id = c->service_id;
    rep.status = static_cast<uint8_t>(SidrStatus::rejected);
    std::copy(data.begin(), data.end(), rep.private_data.begin());
    return send_sidr_rep(state_, *c, rep, now), Result<void>{};
  }
  if (c == nullptr || (c->state != State::req_received && c->state != State::rep_received))
    return over();
  const Answered what = c->active ? Answered::rep : Answered::req;
  const Mad rej = make_rej(*c, what, reason, state_.config.address, data);
  send(state_, c->peer, rej);
  keep_response(*c, rej);  // a passive connection stays half-open to answer repeated REQs
  c->released = true;
  enter_timewait(state_, *c, now);
  return {};
}

Result<void> Agent::confirm(uint32_t id, Instant now) {
  const Result<Connection*> found = in_state(id, State::rep_received, "confirm()");
  if (!found) return found.error();
  Connection& c = **found;
  WEFT_DCHECK(c.active && c.timer.armed());
  state_.wheel.remove(c.timer);
  c.state = State::established;
  send(state_, c.peer, make_rtu(c));
  return (void)now, Result<void>{};
}

Result<void> Agent::disconnect(uint32_t id, Instant now) {
  Connection* const c = state_.table.find(id);
  if (c == nullptr || c->state == State::timewait || c->state == State::dreq_sent) return {};
  if (!is_connected(c->state))
    return Error{Code::bad_state, "disconnect() needs a connection that is established"};
  state_.table.remove_half_open(*c);
  send_dreq(state_, *c, now);
  return {};
}

void Agent::release(uint32_t id, Instant now) noexcept {
  Connection* const c = state_.table.find(id);
  if (c == nullptr || c->released) return;
  if (c->inbox != nullptr) c->inbox->queue.remove(*c);
  c->inbox = nullptr;
  c->pending_events = 0;
  c->event_mad.reset();
  c->released = true;
  switch (c->state) {
    case State::req_sent:
      if (!c->queued.listed)
        send(state_, c->peer, make_rej(*c, Answered::req, Reason::timeout, state_.config.address));
      [[fallthrough]];
    case State::sidr_sent:
      finish_request(state_, *c, now);
      return destroy(state_, *c);
    case State::req_received:
    case State::sidr_received:
      if (is_between_listeners(state_, c->service_id, now)) {
        state_.count(AgentCount::deferred);
        return destroy(state_, *c);
      }
      [[fallthrough]];
    case State::rep_received:
      c->released = false;
      return (void)reject(id, Reason::consumer, {}, now);
    case State::rep_sent:
    case State::established:
      state_.table.remove_half_open(*c);
      return send_dreq(state_, *c, now);
    case State::timewait:
      if (c->timewait_over) destroy(state_, *c);
      return;
    case State::dreq_sent:
      return;
  }
}

bool Agent::next(Inbox& inbox, Event& event) noexcept {
  if (inbox.queue.empty()) return false;
  Connection& c = inbox.queue.pop();
  WEFT_DCHECK(c.pending_events != 0 && c.inbox == &inbox);
  event.kind = static_cast<EventKind>(std::countr_zero(c.pending_events));
  c.pending_events = static_cast<uint8_t>(c.pending_events & ~event_bit(event.kind));
  c.reported = true;
  event.id = c.id;
  event.peer = c.peer;
  event.service_id = c.service_id;
  event.reason = c.reason;
  event.mad = std::move(c.event_mad);
  if (c.pending_events != 0)
    inbox.queue.push(c);
  else if (c.timewait_over)
    destroy(state_, c);
  return true;
}

}  // namespace weft::cm
