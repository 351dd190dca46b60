// SPDX-License-Identifier: BSD-3-Clause
// Services of datagrams (IBTA 12.11, SIDR): one side asks which queue pair serves, the other names
// it and its Q_Key, or says no. Two words, no connection: the question is repeated until the answer
// comes, and the answer to each repetition for half a second.
#include <algorithm>

#include "lib/base/memory_permitting.hpp"
#include "lib/base/undo.hpp"
#include "lib/roce/cm/agent.hpp"

namespace weft::cm {

namespace {

// The reasons of a REJ for the same.
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

Result<uint32_t> Agent::find_service(const Gid& peer, uint64_t service_id, uint16_t source_port,
                                     std::span<const std::byte> data, Inbox& inbox, Instant now) {
  if (data.size() > kSidrPrivateData)
    return Error{Code::invalid_argument,
                 "the private data of find_service() has at most 180 bytes"};
  if (connections_.size() >= config_.max_connections)
    return Error{Code::no_memory, "the device has all its connections in use"};
  Connection& c = *create(State::sidr_sent, peer);
  base::Undo undo([&] { destroy(c); });
  c.active = true;
  c.inbox = &inbox;
  c.service_id = service_id;
  c.transaction = random_.next64();
  SidrReq req{};
  req.request_id = c.id;
  req.pkey = uint16_t{0xFFFF};
  req.service_id = service_id;
  put_ip_header(req, config_.address, source_port, peer, data);
  send_question(c, make(req, c.transaction), now);
  undo.forget();
  return c.id;
}

void Agent::on_sidr_req(const Mad& mad, const Gid& from, Instant now) {
  const SidrReq& req = body_of<SidrReq>(mad);
  if (const auto same = by_request_.find({from, req.request_id}); same != by_request_.end()) {
    add(AgentCount::duplicates);
    if (same->second->sent != nullptr) send_answer(from, *same->second->sent);
    return;
  }
  const auto service = services_.find(req.service_id);
  const bool full = connections_.size() >= config_.max_connections;
  if (service == services_.end() || !of_datagrams(req.service_id) || full) {
    add(AgentCount::refused);
    const SidrStatus why = full ? SidrStatus::no_qp : SidrStatus::unsupported;
    return send_answer(from, make(reply_to(req, why), header_of(mad).transaction));
  }
  evict_oldest();
  Connection& c = *create(State::sidr_received, from);
  base::Undo undo([&] { destroy(c); });
  c.inbox = service->second;
  c.service_id = req.service_id;
  c.transaction = header_of(mad).transaction;
  c.peer_id = req.request_id;
  c.ack_timeout = config_.response_timeout;
  c.heard = std::make_unique<Mad>(mad);
  by_request_[{from, c.peer_id}] = &c;
  undo.forget();
  half_open_.push(c);
  ++half_opens_;
  arm(c, now + time_of(config_.patience));
  raise_event(c, EventKind::request);
}

// It stays half-open, so one of a bounded number, for a while: the question may come again, and is
// answered again if there was memory.
void Agent::answer(Connection& c, const SidrRep& rep, Instant now) {
  const Mad mad = make(rep, c.transaction);
  send(c.peer, mad);
  c.sent.reset();
  (void)base::memory_permitting([&] { c.sent = std::make_unique<Mad>(mad); });
  c.orphan = true;
  enter_timewait(c, now);
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
  answer(**found, rep, now);
  return {};
}

Result<void> Agent::refuse_service(Connection& c, std::span<const std::byte> data, Instant now) {
  SidrRep rep{};
  if (data.size() > rep.private_data.size())
    return Error{Code::invalid_argument,
                 "the private data of reject() has at most 136 bytes for datagrams"};
  rep.request_id = c.peer_id;
  rep.service_id = c.service_id;
  rep.status = static_cast<uint8_t>(SidrStatus::rejected);
  std::copy(data.begin(), data.end(), rep.private_data.begin());
  answer(c, rep, now);
  return {};
}

// The question's name is all that the answer repeats: 32 bits that only the peer was told.
void Agent::on_sidr_rep(const Mad& mad, const Gid& from, Instant now) {
  const SidrRep& rep = body_of<SidrRep>(mad);
  Connection* const c = find(rep.request_id);
  if (c == nullptr) return add(AgentCount::strangers);
  if (c->peer != from) return add(AgentCount::wrong_source);
  if (c->state != State::sidr_sent)
    return add(c->state == State::timewait ? AgentCount::duplicates : AgentCount::unexpected);
  c->heard = std::make_unique<Mad>(mad);
  c->reason = reason_of(static_cast<SidrStatus>(rep.status));
  end(*c, c->reason == Reason::none ? EventKind::served : EventKind::rejected, now);
}

}  // namespace weft::cm
