// SPDX-License-Identifier: BSD-3-Clause
// Translates events of the agent to those of one connection (IBTA 12.9), and aborts the connection
// if there is no memory for that.
#include "lib/base/guarded.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/roce/cm/ip_addressing.hpp"
#include "providers/roce/cm_channel.hpp"

namespace weft::roce_provider {

namespace {

template <class Bytes>
std::vector<std::byte> copy_of(const Bytes& bytes, size_t from = 0) {
  return {bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end()};
}

}  // namespace

CmEvent ConnectionId::event_of(CmEventType type) {
  CmEvent event;
  event.type = type;
  event.id = weft::CmId(shared_from_this());
  return event;
}

// The peer accepted: connects the queue pair, then confirms with an RTU.
std::optional<CmEvent> ConnectionId::on_reply(const cm::Event& event) {
  const cm::Rep& rep = cm::body_of<cm::Rep>(*event.mad);
  RoceContext& context = channel_->context();
  facts_.peer_qpn = QpNum{rep.local_qpn};
  parameters_.responder_resources = std::min(parameters_.responder_resources, rep.initiator_depth);
  parameters_.initiator_depth = std::min(parameters_.initiator_depth, rep.responder_resources);
  const Result<void> connected =
      connect_queue_pair({.psn = Psn{rep.starting_psn},
                          .responder_resources = parameters_.responder_resources,
                          .initiator_depth = parameters_.initiator_depth,
                          .rnr_retry = rep.rnr_retry(),
                          .retry_count = parameters_.retry_count,
                          .timeout = parameters_.timeout});
  if (!connected) {
    phase_ = Phase::closed;
    context.with_agent([&](cm::Agent& agent, Instant now) {
      return agent.reject(agent_id_, cm::Reason::consumer, {}, now).ok();
    });
    CmEvent failed = event_of(CmEventType::connect_error);
    failed.error = connected.error();
    return failed;
  }
  phase_ = Phase::accepted;
  const bool confirmed = context.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.confirm(agent_id_, now).ok(); });
  if (!confirmed) return std::nullopt;  // the next event says why
  CmEvent done = event_of(CmEventType::established);
  done.peer.private_data = copy_of(rep.private_data);
  done.peer.responder_resources = rep.responder_resources;
  done.peer.initiator_depth = rep.initiator_depth;
  done.peer.rnr_retry = rep.rnr_retry();
  return done;
}

CmEvent ConnectionId::request_event() {
  CmEvent result = event_of(CmEventType::connect_request);
  if (service_ == CmService::datagrams) {
    const cm::SidrReq& req = cm::body_of<cm::SidrReq>(request_);
    const bool ip = cm::ip_addresses(req).has_value();
    result.peer.private_data = copy_of(req.private_data, ip ? sizeof(cm::IpHeader) : 0);
    return result;
  }
  const cm::Req& req = cm::body_of<cm::Req>(request_);
  const bool ip = cm::ip_addresses(req).has_value();
  result.peer.private_data = copy_of(req.private_data, ip ? sizeof(cm::IpHeader) : 0);
  result.peer.responder_resources = req.responder_resources;
  result.peer.initiator_depth = req.initiator_depth;
  result.peer.rnr_retry = req.rnr_retry();
  result.peer.retry_count = req.retry_count();
  result.peer.timeout = req.primary.ack_timeout >> 3;
  result.peer.path_mtu = facts_.path_mtu;
  result.peer.traffic_class = req.primary.traffic_class;
  return result;
}

CmEvent ConnectionId::service_event(const cm::Event& event) {
  const cm::SidrRep& rep = cm::body_of<cm::SidrRep>(*event.mad);
  facts_.peer_qpn = QpNum{rep.qpn};
  CmEvent found = event_of(CmEventType::established);
  found.peer.private_data = copy_of(rep.private_data);
  found.service = CmDatagramService{
      .path = {.destination = facts_.peer}, .qpn = QpNum{rep.qpn}, .qkey = rep.qkey};
  return found;
}

std::vector<std::byte> ConnectionId::private_data_of_reject(const cm::Mad& mad) const {
  return service_ == CmService::datagrams ? copy_of(cm::body_of<cm::SidrRep>(mad).private_data)
                                          : copy_of(cm::body_of<cm::Rej>(mad).private_data);
}

std::optional<CmEvent> ConnectionId::on_event(cm::Event& event) {
  const std::lock_guard hold(mutex_);
  std::optional<CmEvent> translated;
  if (!base::memory_permitting([&] { translated = translate(event); })) return abort_connection();
  return translated;
}

std::optional<CmEvent> ConnectionId::translate(cm::Event& event) {
  switch (event.kind) {
    case cm::EventKind::reply:
      return on_reply(event);
    case cm::EventKind::established:
      return event_of(CmEventType::established);
    case cm::EventKind::request:
      return request_event();
    default:
      return on_disconnect(event);
  }
}

// The connection ended or was not established. The message is omitted if there is no memory for it.
CmEvent ConnectionId::on_disconnect(const cm::Event& event) {
  const bool connected = phase_ == Phase::accepted;
  phase_ = Phase::closed;
  if (connected) (void)facts_.qp.modify({.state = QpState::err});
  if (event.kind == cm::EventKind::served) return service_event(event);
  if (event.kind == cm::EventKind::disconnected) return event_of(CmEventType::disconnected);
  const bool refused = event.kind == cm::EventKind::rejected;
  CmEvent ended = event_of(refused ? CmEventType::rejected : CmEventType::unreachable);
  ended.error.emplace(Error{refused ? Code::disconnected : Code::timed_out, {}});
  if (refused) ended.reason = static_cast<uint16_t>(event.reason);
  (void)base::memory_permitting([&] {
    const std::string peer = to_string(facts_.peer);
    ended.error->message =
        refused ? peer + ": " + verbs::describe_rejection(ended.reason) : peer + " does not answer";
    if (refused && event.mad) ended.peer.private_data = private_data_of_reject(*event.mad);
  });
  return ended;
}

// There is no memory to report an event: releases the connection, which informs the peer.
CmEvent ConnectionId::abort_connection() {
  if (phase_ == Phase::accepted) (void)facts_.qp.modify({.state = QpState::err});
  phase_ = Phase::closed;
  channel_->context().with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.release(agent_id_, now), true; });
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = Error{Code::no_memory, base::kOutOfMemory};
  return failed;
}

}  // namespace weft::roce_provider
