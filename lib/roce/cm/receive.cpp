// SPDX-License-Identifier: BSD-3-Clause
// What the network asks for: one function per kind of datagram. Each fits any state, for datagrams
// are lost, come twice and overtake each other; and a connection hears only its other side.
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "lib/roce/cm/agent.hpp"
#include "lib/roce/cm/ip_addressing.hpp"

namespace weft::cm {

namespace {
constexpr uint8_t kLongestMra = 24;  // 69 s: who asks for more gets that
constexpr uint8_t kSoon = 15;        // 134 ms: the network's copy, not a question that comes again

// How long who asks goes on asking.
Duration patience_of(const Req& req) {
  return time_of(std::min(req.remote_response_timeout(), kLongestMra)) * (req.cm_retries() + 1);
}
}  // namespace

void Agent::on_datagram(std::span<const std::byte> bytes, const Gid& from, Instant now) noexcept {
  add(AgentCount::received);
  Mad mad;
  if (check(bytes, mad) != MadError::none) return add(AgentCount::malformed);
  if (!base::memory_permitting([&] { on_mad(mad, from, now); })) add(AgentCount::no_memory);
}

// Throws std::bad_alloc, and then nothing has changed.
void Agent::on_mad(const Mad& mad, const Gid& from, Instant now) {
  const auto hears = [&](auto& body) { return addressee(body.remote_id, body.local_id, from); };
  if (from.is_multicast() || from == Gid{}) return add(AgentCount::strangers);
  switch (static_cast<Attribute>(uint16_t{header_of(mad).attribute})) {
    case Attribute::req:
      return on_req(mad, from, now);
    case Attribute::mra:
      if (Connection* const c = hears(body_of<Mra>(mad))) on_mra(*c, body_of<Mra>(mad), now);
      return;
    case Attribute::rej:
      if (Connection* const c = rejected(body_of<Rej>(mad), from)) on_rej(*c, mad, now);
      return;
    case Attribute::rep:
      if (Connection* const c = hears(body_of<Rep>(mad))) return on_rep(*c, mad, now);
      return refuse(from, mad, body_of<Rep>(mad).local_id, Answered::rep, Reason::invalid_id);
    case Attribute::rtu:
      if (Connection* const c = hears(body_of<Rtu>(mad))) on_rtu(*c, now);
      return;
    case Attribute::dreq:
      return on_dreq(mad, from, now);
    case Attribute::drep:
      if (Connection* const c = hears(body_of<Drep>(mad))) on_drep(*c, now);
      return;
    case Attribute::sidr_req:
      return on_sidr_req(mad, from, now);
    case Attribute::sidr_rep:
      return on_sidr_rep(mad, from, now);
  }
}

// Who gives up before it has heard our name for the connection says its own only. That ends what it
// has asked for itself, no more: everything else must name what only the peer was told.
// //= threat:A17
Connection* Agent::rejected(const Rej& rej, const Gid& from) {
  if (rej.remote_id != 0u) return addressee(rej.remote_id, rej.local_id, from);
  const auto known = by_peer_id_.find({from, rej.local_id});
  return known != by_peer_id_.end() ? known->second : (add(AgentCount::strangers), nullptr);
}

// Our connection that a datagram names, if it comes from the other side of it.
Connection* Agent::addressee(uint32_t remote_id, uint32_t peer_id, const Gid& from) {
  Connection* const c = find(remote_id);
  if (c == nullptr) return add(AgentCount::strangers), nullptr;
  if (c->peer != from) return add(AgentCount::wrong_source), nullptr;
  if (c->peer_id != 0 && peer_id != 0 && c->peer_id != peer_id)
    return add(AgentCount::strangers), nullptr;
  return c;
}

// What we could not answer with a yes, whoever listens.
Reason Agent::reject_reason(const Req& req, const Gid& from) const noexcept {
  if (req.transport() != Transport::rc && req.transport() != Transport::uc)
    return Reason::invalid_transport;
  if (req.primary.local_gid != from || req.primary.remote_gid != config_.address)
    return Reason::invalid_gid;
  if (mtu_of(req.mtu_code()) == 0) return Reason::invalid_mtu;
  return req.local_qpn == 0 || req.local_id == 0 ? Reason::invalid_id : Reason::none;
}

void Agent::on_req(const Mad& mad, const Gid& from, Instant now) {
  const Req& req = body_of<Req>(mad);
  if (on_known_req(mad, from, now)) return;
  Reason reason = reject_reason(req, from);
  const auto service = services_.find(req.service_id);
  if (reason == Reason::none && (service == services_.end() || of_datagrams(req.service_id)))
    reason = Reason::invalid_service;
  if (reason == Reason::none && connections_.size() >= config_.max_connections)
    reason = Reason::no_resources;
  if (reason != Reason::none) return refuse(from, mad, req.local_id, Answered::req, reason);

  evict_oldest();
  Connection& c = *create(State::req_received, from);
  base::Undo undo([&] { destroy(c); });
  c.inbox = service->second;
  c.service_id = req.service_id;
  c.transaction = header_of(mad).transaction;
  c.ack_timeout = req.primary.ack_timeout >> 3;
  c.wait = req.local_response_timeout();
  c.tries = req.cm_retries();
  c.heard = std::make_unique<Mad>(mad);
  adopt_peer(c, req.local_id, QpNum{req.local_qpn});
  undo.forget();
  half_open_.push(c);
  ++half_opens_;
  c.since = now;
  arm(c, now + patience_of(req));  //= roce:C-CM-107
  raise_event(c, EventKind::request);
}

// True if it is answered: it was here before, or its sender has been, in another life.
// //= roce:C-CM-106 roce:C-CM-108
bool Agent::on_known_req(const Mad& mad, const Gid& from, Instant now) {
  const Req& req = body_of<Req>(mad);
  const auto same = by_peer_id_.find({from, req.local_id});
  if (same != by_peer_id_.end() && same->second->peer_qpn.value == req.local_qpn) {
    Connection& c = *same->second;
    add(AgentCount::duplicates);
    if (c.state == State::req_received) {
      if (!ask_for_patience(c, Answered::req, now)) return true;
      arm(c, now + time_of(config_.patience) + patience_of(req));
    } else if (c.sent != nullptr && c.state != State::dreq_sent) {
      send_answer(from, *c.sent);  // the REP, or the REJ
    } else if (c.state == State::timewait) {
      refuse(from, mad, req.local_id, Answered::req, Reason::stale);
    }
    return true;
  }
  const auto old = by_peer_qpn_.find({from, req.local_qpn});
  if (old == by_peer_qpn_.end()) return false;
  Connection& c = *old->second;
  if (c.state == State::req_received) {  // it has thought better of it
    end(c, EventKind::unreachable, now);
    return false;
  }
  add(AgentCount::stale);
  refuse(from, mad, req.local_id, Answered::req, Reason::stale);
  abandon(c, now);
  return true;
}

// Asked again while the application thinks: the other side is to wait. False: too early for that.
bool Agent::ask_for_patience(Connection& c, Answered what, Instant now) {
  if (now - c.since < time_of(kSoon)) return false;
  send_answer(c.peer, patience(c, what));
  return true;
}

void Agent::on_mra(Connection& c, const Mra& mra, Instant now) {
  const auto what = static_cast<Answered>(mra.message >> 6);
  const bool fits = (c.state == State::req_sent && what == Answered::req) ||
                    (c.state == State::rep_sent && what == Answered::rep);
  if (!fits) return add(AgentCount::unexpected);
  if (c.state == State::req_sent) finish_question(c, now);  // it has been heard
  const auto longer = std::min<uint8_t>(mra.service_timeout >> 3, kLongestMra);
  arm(c, now + time_of(longer) + time_of(c.wait));
}

void Agent::on_rej(Connection& c, const Mad& mad, Instant now) {
  switch (c.state) {
    case State::req_sent:
    case State::rep_received:
    case State::rep_sent:
    case State::req_received:
      c.reason = static_cast<Reason>(uint16_t{body_of<Rej>(mad).reason});
      c.heard.reset();  // private data, which is missing where there is no memory
      (void)base::memory_permitting([&] { c.heard = std::make_unique<Mad>(mad); });
      return end(c, EventKind::rejected, now);
    case State::established:  // it waited for our RTU in vain
    case State::dreq_sent:
      return end(c, EventKind::disconnected, now);
    case State::sidr_sent:
    case State::sidr_received:
      return add(AgentCount::unexpected);
    case State::timewait:
      return add(AgentCount::duplicates);
  }
}

void Agent::on_rep(Connection& c, const Mad& mad, Instant now) {
  const Rep& rep = body_of<Rep>(mad);
  if (c.state == State::rep_received) {
    add(AgentCount::duplicates);
    if (ask_for_patience(c, Answered::rep, now)) arm(c, now + time_of(config_.patience));
    return;
  }
  if (c.state == State::established && c.active) {
    add(AgentCount::duplicates);
    return send_answer(c.peer, readiness(c));
  }
  if (c.state != State::req_sent) return add(AgentCount::unexpected);
  const auto old = by_peer_qpn_.find({c.peer, rep.local_qpn});
  if (old != by_peer_qpn_.end()) {  //= roce:C-CM-108
    add(AgentCount::stale);
    refuse(c.peer, mad, rep.local_id, Answered::rep, Reason::stale);
    abandon(*old->second, now);
    c.reason = Reason::stale;
    return end(c, EventKind::rejected, now);
  }
  auto heard = std::make_unique<Mad>(mad);
  adopt_peer(c, rep.local_id, QpNum{rep.local_qpn});
  c.state = State::rep_received;
  finish_question(c, now);
  c.sent.reset();
  c.heard = std::move(heard);
  c.since = now;
  arm(c, now + time_of(config_.patience));
  raise_event(c, EventKind::reply);
}

void Agent::on_rtu(Connection& c, Instant now) {
  (void)now;
  if (c.state != State::rep_sent)
    return add(c.state == State::established ? AgentCount::duplicates : AgentCount::unexpected);
  drop_half_open(c);
  wheel_.remove(c.timer);
  c.sent.reset();
  c.state = State::established;
  raise_event(c, EventKind::established);
}

// It would not ask if it were not ready: what it said of that is lost, and may not come again for a
// minute where it has asked for patience. //= roce:C-CM-106
void Agent::on_first_request(QpNum number, const Gid& peer, QpNum peer_number,
                             Instant now) noexcept {
  const auto found = by_peer_qpn_.find({peer, peer_number.value});
  if (found == by_peer_qpn_.end()) return;
  Connection& c = *found->second;
  if (c.qpn == number && c.state == State::rep_sent) on_rtu(c, now);
}

// Answered whoever asks: it may be over here already.
void Agent::on_dreq(const Mad& mad, const Gid& from, Instant now) {
  const Dreq& dreq = body_of<Dreq>(mad);
  const uint64_t transaction = header_of(mad).transaction;
  Connection* const c = find(dreq.remote_id);
  if (c == nullptr) {
    add(AgentCount::strangers);
    return send_drep(from, transaction, dreq.remote_id, dreq.local_id);
  }
  if (c->peer != from) return add(AgentCount::wrong_source);
  if (c->peer_id != dreq.local_id || c->qpn.value != dreq.remote_qpn)
    return add(AgentCount::unexpected);
  if (c->state == State::req_sent || c->state == State::req_received ||
      c->state == State::sidr_sent || c->state == State::sidr_received)
    return add(AgentCount::unexpected);
  send_drep(from, transaction, c->id, c->peer_id);
  if (c->state == State::timewait) return add(AgentCount::duplicates);
  end(*c, EventKind::disconnected, now);
}

void Agent::on_drep(Connection& c, Instant now) {
  if (c.state != State::dreq_sent)
    return add(c.state == State::timewait ? AgentCount::duplicates : AgentCount::unexpected);
  end(c, EventKind::disconnected, now);
}

}  // namespace weft::cm
