// SPDX-License-Identifier: BSD-3-Clause
// Received MADs: one function per kind. MADs are lost, duplicated and reordered, so each is valid
// or counted in any state; and a connection accepts MADs of its peer only.
#include <algorithm>

#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "lib/roce/cm/agent_state.hpp"

namespace weft::cm {

namespace {

constexpr uint8_t kMaxServiceTimeout = 24;  // 69 s: longer ones of a peer are cut to this
constexpr uint8_t kDuplicateWithin = 15;    // 134 ms: a duplicate of the network, no retransmission

// How long the peer repeats its REQ.
Duration request_lifetime(const Req& req) {
  return time_of(std::min(req.remote_response_timeout(), kMaxServiceTimeout)) *
         (req.cm_retries() + 1);
}

// The connection that a MAD names, if the MAD is from its peer; else counts why not.
Connection* find_addressee(AgentState& agent, uint32_t remote_id, uint32_t peer_id,
                           const Gid& from) {
  Connection* const c = agent.table.find(remote_id);
  if (c == nullptr) return agent.count(AgentCount::unknown_id), nullptr;
  if (c->peer != from) return agent.count(AgentCount::wrong_source), nullptr;
  if (c->peer_id != 0 && peer_id != 0 && c->peer_id != peer_id)
    return agent.count(AgentCount::unknown_id), nullptr;
  return c;
}

// A peer that gives up before it knows our id sends only its own. That can end the connection that
// it requested itself; every other MAD must name the id that only the peer was told. //= threat:A17
Connection* find_rejected(AgentState& agent, const Rej& rej, const Gid& from) {
  if (rej.remote_id != 0u) return find_addressee(agent, rej.remote_id, rej.local_id, from);
  Connection* const c = agent.table.find_by_peer_id(from, rej.local_id);
  if (c == nullptr) agent.count(AgentCount::unknown_id);
  return c;
}

// Why a REQ cannot be accepted by any listener.
Reason invalid_reason(const AgentState& agent, const Req& req, const Gid& from) noexcept {
  const bool xrc =
      req.transport() == Transport::extended && req.extended_transport() == ExtendedTransport::xrc;
  if (req.transport() != Transport::rc && req.transport() != Transport::uc && !xrc)
    return Reason::invalid_transport;
  if (req.primary.local_gid != from || req.primary.remote_gid != agent.config.address)
    return Reason::invalid_gid;
  if (mtu_of(req.mtu_code()) == 0) return Reason::invalid_mtu;
  return req.local_qpn == 0 || req.local_id == 0 ? Reason::invalid_id : Reason::none;
}

// A retransmission arrived while the application decides: asks the peer to wait. False: it was a
// duplicate of the network.
bool send_mra(AgentState& agent, Connection& c, Answered what, Instant now) {
  if (now - c.decision_since < time_of(kDuplicateWithin)) return false;
  send_response(agent, c.peer, make_mra(c, what, agent.config.service_timeout));
  return true;
}

// Handles a REQ that is a retransmission, or from a queue pair that is connected already (the peer
// restarted). False: it is neither. //= roce:C-CM-106 roce:C-CM-108
bool on_known_req(AgentState& agent, const Mad& mad, const Gid& from, Instant now) {
  const Req& req = body_of<Req>(mad);
  Connection* const same = agent.table.find_by_peer_id(from, req.local_id);
  if (same != nullptr && same->peer_qpn.value == req.local_qpn) {
    Connection& c = *same;
    agent.count(AgentCount::duplicates);
    if (c.state == State::req_received) {
      if (!send_mra(agent, c, Answered::req, now)) return true;
      arm(agent, c, now + time_of(agent.config.service_timeout) + request_lifetime(req));
    } else if (c.sent != nullptr && c.state != State::dreq_sent) {
      send_response(agent, from, *c.sent);  // the REP, or the REJ
    } else if (c.state == State::timewait) {
      send_rej(agent, from, mad, req.local_id, Answered::req, Reason::stale);
    }
    return true;
  }
  Connection* const old = agent.table.find_by_peer_qpn(from, req.local_qpn);
  if (old == nullptr) return false;
  Connection& c = *old;
  if (c.state == State::req_received) {  // the peer abandoned that request
    end(agent, c, EventKind::unreachable, now);
    return false;
  }
  agent.count(AgentCount::stale);
  send_rej(agent, from, mad, req.local_id, Answered::req, Reason::stale);
  abandon(agent, c, now);
  return true;
}

void on_req(AgentState& agent, const Mad& mad, const Gid& from, Instant now) {
  const Req& req = body_of<Req>(mad);
  if (on_known_req(agent, mad, from, now)) return;
  Reason reason = invalid_reason(agent, req, from);
  if (reason == Reason::none && is_between_listeners(agent, req.service_id, now))
    return agent.count(AgentCount::deferred);
  const auto service = agent.services.find(req.service_id);
  if (reason == Reason::none && (service == agent.services.end() || of_datagrams(req.service_id)))
    reason = Reason::invalid_service;
  if (reason == Reason::none && agent.table.size() >= agent.config.max_connections)
    reason = Reason::no_resources;
  if (reason != Reason::none)
    return send_rej(agent, from, mad, req.local_id, Answered::req, reason);

  evict_half_open(agent);
  Connection& c = create_connection(agent, State::req_received, from);
  base::Undo undo([&] { destroy(agent, c); });
  c.inbox = service->second;
  c.service_id = req.service_id;
  c.transport = req.transport();
  c.transaction = header_of(mad).transaction;
  c.ack_timeout = req.primary.ack_timeout >> 3;
  c.retry_timeout = req.local_response_timeout();
  c.retries_left = req.cm_retries();
  c.wants_failover = req.has_alternate_path();
  c.event_mad = std::make_unique<Mad>(mad);
  agent.table.set_peer(c, req.local_id, QpNum{req.local_qpn});
  undo.forget();
  agent.table.add_half_open(c);
  c.decision_since = now;
  arm(agent, c, now + request_lifetime(req));  //= roce:C-CM-107
  raise_event(c, EventKind::request);
}

void on_mra(AgentState& agent, Connection& c, const Mra& mra, Instant now) {
  const auto what = static_cast<Answered>(mra.message >> 6);
  const bool fits = (c.state == State::req_sent && what == Answered::req) ||
                    (c.state == State::rep_sent && what == Answered::rep);
  if (!fits) return agent.count(AgentCount::unexpected);
  if (c.state == State::req_sent) finish_request(agent, c, now);  // the peer received it
  const auto longer = std::min<uint8_t>(mra.service_timeout >> 3, kMaxServiceTimeout);
  arm(agent, c, now + time_of(longer) + time_of(c.retry_timeout));
}

void on_rej(AgentState& agent, Connection& c, const Mad& mad, Instant now) {
  switch (c.state) {
    case State::req_sent:
    case State::rep_received:
    case State::rep_sent:
    case State::req_received:
      c.reason = static_cast<Reason>(uint16_t{body_of<Rej>(mad).reason});
      c.event_mad.reset();  // carries private data; omitted if there is no memory
      (void)base::memory_permitting([&] { c.event_mad = std::make_unique<Mad>(mad); });
      return end(agent, c, EventKind::rejected, now);
    case State::established:  // our RTU was lost
    case State::dreq_sent:
      return end(agent, c, EventKind::disconnected, now);
    case State::sidr_sent:
    case State::sidr_received:
      return agent.count(AgentCount::unexpected);
    case State::timewait:
      return agent.count(AgentCount::duplicates);
  }
}

void on_rep(AgentState& agent, Connection& c, const Mad& mad, Instant now) {
  const Rep& rep = body_of<Rep>(mad);
  if (c.state == State::rep_received) {
    agent.count(AgentCount::duplicates);
    if (send_mra(agent, c, Answered::rep, now))
      arm(agent, c, now + time_of(agent.config.service_timeout));
    return;
  }
  if (c.state == State::established && c.active) {
    agent.count(AgentCount::duplicates);
    return send_response(agent, c.peer, make_rtu(c));
  }
  if (c.state != State::req_sent) return agent.count(AgentCount::unexpected);
  const uint32_t peer_qpn = rep.qpn_for(c.transport);
  Connection* const old = agent.table.find_by_peer_qpn(c.peer, peer_qpn);
  if (old != nullptr) {  //= roce:C-CM-108
    agent.count(AgentCount::stale);
    send_rej(agent, c.peer, mad, rep.local_id, Answered::rep, Reason::stale);
    abandon(agent, *old, now);
    c.reason = Reason::stale;
    return end(agent, c, EventKind::rejected, now);
  }
  auto event_mad = std::make_unique<Mad>(mad);
  agent.table.set_peer(c, rep.local_id, QpNum{peer_qpn});
  c.state = State::rep_received;
  finish_request(agent, c, now);
  c.sent.reset();
  c.event_mad = std::move(event_mad);
  c.decision_since = now;
  arm(agent, c, now + time_of(agent.config.service_timeout));
  raise_event(c, EventKind::reply);
}

// Answered even without a connection: it may be over already on this side.
void on_dreq(AgentState& agent, const Mad& mad, const Gid& from, Instant now) {
  const Dreq& dreq = body_of<Dreq>(mad);
  const uint64_t transaction = header_of(mad).transaction;
  Connection* const c = agent.table.find(dreq.remote_id);
  if (c == nullptr) {
    agent.count(AgentCount::unknown_id);
    return send_response(agent, from, make_drep(transaction, dreq.remote_id, dreq.local_id));
  }
  if (c->peer != from) return agent.count(AgentCount::wrong_source);
  if (c->peer_id != dreq.local_id || c->qpn.value != dreq.remote_qpn)
    return agent.count(AgentCount::unexpected);
  if (c->state == State::req_sent || c->state == State::req_received ||
      c->state == State::sidr_sent || c->state == State::sidr_received)
    return agent.count(AgentCount::unexpected);
  send_response(agent, from, make_drep(transaction, c->id, c->peer_id));
  if (c->state == State::timewait) return agent.count(AgentCount::duplicates);
  end(agent, *c, EventKind::disconnected, now);
}

// An alternate path is refused, and the connection goes on. //= roce:C-AV-132
void on_lap(AgentState& agent, Connection& c, const Mad& mad) {
  if (c.state != State::established) return agent.count(AgentCount::unexpected);
  send_response(agent, c.peer, make_apr(c, header_of(mad).transaction));
}

void on_drep(AgentState& agent, Connection& c, Instant now) {
  if (c.state != State::dreq_sent)
    return agent.count(c.state == State::timewait ? AgentCount::duplicates
                                                  : AgentCount::unexpected);
  end(agent, c, EventKind::disconnected, now);
}

}  // namespace

void on_rtu(AgentState& agent, Connection& c) noexcept {
  if (c.state != State::rep_sent)
    return agent.count(c.state == State::established ? AgentCount::duplicates
                                                     : AgentCount::unexpected);
  agent.table.remove_half_open(c);
  agent.wheel.remove(c.timer);
  c.sent.reset();
  c.state = State::established;
  raise_event(c, EventKind::established);
}

void on_mad(AgentState& agent, const Mad& mad, const Gid& from, Instant now) {
  const auto find = [&](auto& body) {
    return find_addressee(agent, body.remote_id, body.local_id, from);
  };
  if (from.is_multicast() || from == Gid{}) return agent.count(AgentCount::unknown_id);
  switch (static_cast<Attribute>(uint16_t{header_of(mad).attribute})) {
    case Attribute::req:
      return on_req(agent, mad, from, now);
    case Attribute::mra:
      if (Connection* const c = find(body_of<Mra>(mad))) on_mra(agent, *c, body_of<Mra>(mad), now);
      return;
    case Attribute::rej:
      if (Connection* const c = find_rejected(agent, body_of<Rej>(mad), from))
        on_rej(agent, *c, mad, now);
      return;
    case Attribute::rep:
      if (Connection* const c = find(body_of<Rep>(mad))) return on_rep(agent, *c, mad, now);
      return send_rej(agent, from, mad, body_of<Rep>(mad).local_id, Answered::rep,
                      Reason::invalid_id);
    case Attribute::rtu:
      if (Connection* const c = find(body_of<Rtu>(mad))) on_rtu(agent, *c);
      return;
    case Attribute::dreq:
      return on_dreq(agent, mad, from, now);
    case Attribute::drep:
      if (Connection* const c = find(body_of<Drep>(mad))) on_drep(agent, *c, now);
      return;
    case Attribute::lap:
      if (Connection* const c = find(body_of<Lap>(mad))) on_lap(agent, *c, mad);
      return;
    case Attribute::apr:  // we load no alternate path
      return agent.count(AgentCount::unexpected);
    case Attribute::sidr_req:
      return on_sidr_req(agent, mad, from, now);
    case Attribute::sidr_rep:
      return on_sidr_rep(agent, mad, from, now);
  }
}

}  // namespace weft::cm
