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

// The peer accepted: connects the queue pair, then confirms with an RTU. With a queue pair that the
// program moves itself, both are up to it.
std::optional<CmEvent> ConnectionId::on_reply(const cm::Event& event) {
  const cm::Rep& rep = cm::body_of<cm::Rep>(*event.mad);
  agreed_ = cm::agreed(offer_, cm::ece_of_rep(*event.mad));
  facts_.peer_qpn = QpNum{rep.qpn_for(cm::transport_of(own_.type))};
  parameters_.responder_resources = std::min(parameters_.responder_resources, rep.initiator_depth);
  parameters_.initiator_depth = std::min(parameters_.initiator_depth, rep.responder_resources);
  peer_ = {.psn = Psn{rep.starting_psn},
           .rnr_retry = rep.rnr_retry(),
           .retry_count = parameters_.retry_count,
           .timeout = parameters_.timeout};
  CmEvent done = event_of(facts_.qp ? CmEventType::established : CmEventType::connect_response);
  done.peer.private_data = copy_of(rep.private_data);
  done.peer.responder_resources = rep.responder_resources;
  done.peer.initiator_depth = rep.initiator_depth;
  done.peer.rnr_retry = rep.rnr_retry();
  if (!facts_.qp) {
    done.queue_pair =
        CmQueuePair{.number = facts_.peer_qpn,
                    .type = own_.type == QpType::xrc_initiator ? QpType::xrc_target : own_.type,
                    .shared_receives = rep.shared_receives()};
    phase_ = Phase::response_received;
    return done;
  }
  if (const Result<void> connected = connect_queue_pair(); !connected) {
    phase_ = Phase::closed;
    context_.with_agent([&](cm::Agent& agent, Instant now) {
      return agent.reject(agent_id_, cm::Reason::consumer, {}, now).ok();
    });
    CmEvent failed = event_of(CmEventType::connect_error);
    failed.error = connected.error();
    return failed;
  }
  phase_ = Phase::accepted;
  const bool confirmed = context_.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.confirm(agent_id_, now).ok(); });
  if (!confirmed) return std::nullopt;  // the next event says why
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
  result.queue_pair =
      CmQueuePair{.number = facts_.peer_qpn,
                  .type = own_.type == QpType::xrc_target ? QpType::xrc_initiator : own_.type,
                  .shared_receives = req.shared_receives()};
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
  if (connected) set_queue_pair_to_err();
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
  if (phase_ == Phase::accepted) set_queue_pair_to_err();
  phase_ = Phase::closed;
  context_.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.release(agent_id_, now), true; });
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = Error{Code::no_memory, base::kOutOfMemory};
  return failed;
}

}  // namespace weft::roce_provider
