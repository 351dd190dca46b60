// SPDX-License-Identifier: BSD-3-Clause
// Service id resolution (SIDR, IBTA 12.11): a SIDR_REQ asks which queue pair serves datagrams, the
// SIDR_REP names it and its Q_Key, or rejects. No connection: the request is repeated until the
// response arrives, and the response to each repetition for half a second.
#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "lib/roce/cm/agent_state.hpp"

namespace weft::cm {

namespace {

// The reason of a REJ with the same meaning.
Reason reason_of(SidrStatus status) {
  switch (status) {
    case SidrStatus::valid:
      return Reason::none;
    case SidrStatus::unsupported:
      return Reason::invalid_service;
    case SidrStatus::rejected:
      return Reason::consumer;
    case SidrStatus::no_qp:
      return Reason::no_qp;
    case SidrStatus::redirected:
    case SidrStatus::version:
      break;
  }
  return Reason::unsupported;
}

SidrRep reply_to(const SidrReq& req, SidrStatus status) {
  SidrRep rep{};
  rep.request_id = req.request_id;
  rep.status = static_cast<uint8_t>(status);
  rep.service_id = req.service_id;
  return rep;
}

}  // namespace

void on_sidr_req(AgentState& agent, const Mad& mad, const Gid& from, Instant now) {
  const SidrReq& req = body_of<SidrReq>(mad);
  if (Connection* const same = agent.table.find_sidr_request(from, req.request_id)) {
    agent.count(AgentCount::duplicates);
    if (same->sent != nullptr) send_response(agent, from, *same->sent);
    return;
  }
  if (is_between_listeners(agent, req.service_id, now)) return agent.count(AgentCount::deferred);
  const auto service = agent.services.find(req.service_id);
  const bool full = agent.table.size() >= agent.config.max_connections;
  if (service == agent.services.end() || !of_datagrams(req.service_id) || full) {
    agent.count(AgentCount::refused);
    const SidrStatus why = full ? SidrStatus::no_qp : SidrStatus::unsupported;
    return send_response(agent, from, make(reply_to(req, why), header_of(mad).transaction));
  }
  evict_half_open(agent);
  Connection& c = create_connection(agent, State::sidr_received, from);
  base::Undo undo([&] { destroy(agent, c); });
  c.inbox = service->second;
  c.service_id = req.service_id;
  c.transaction = header_of(mad).transaction;
  c.ack_timeout = agent.config.response_timeout;
  c.event_mad = std::make_unique<Mad>(mad);
  agent.table.set_sidr_request(c, req.request_id);
  undo.forget();
  agent.table.add_half_open(c);
  arm(agent, c, now + time_of(agent.config.service_timeout));
  raise_event(c, EventKind::request);
}

// The response names only the request id: 32 random bits that only the peer was told.
void on_sidr_rep(AgentState& agent, const Mad& mad, const Gid& from, Instant now) {
  const SidrRep& rep = body_of<SidrRep>(mad);
  Connection* const c = agent.table.find(rep.request_id);
  if (c == nullptr) return agent.count(AgentCount::unknown_id);
  if (c->peer != from) return agent.count(AgentCount::wrong_source);
  if (c->state != State::sidr_sent)
    return agent.count(c->state == State::timewait ? AgentCount::duplicates
                                                   : AgentCount::unexpected);
  c->event_mad = std::make_unique<Mad>(mad);
  c->reason = reason_of(static_cast<SidrStatus>(rep.status));
  end(agent, *c, c->reason == Reason::none ? EventKind::served : EventKind::rejected, now);
}

// The exchange stays half-open for a while, so one of a bounded number, to answer repeated
// requests.
void send_sidr_rep(AgentState& agent, Connection& c, const SidrRep& rep, Instant now) {
  WEFT_DCHECK(c.state == State::sidr_received && c.half_open.listed);
  const Mad mad = make(rep, c.transaction);
  send(agent, c.peer, mad);
  c.sent.reset();
  (void)base::memory_permitting([&] { c.sent = std::make_unique<Mad>(mad); });
  c.released = true;
  enter_timewait(agent, c, now);
}

}  // namespace weft::cm
