// SPDX-License-Identifier: BSD-3-Clause
// What the agent's events mean to one connection (IBTA 12.9), and what is left of that where there
// is no memory to tell it.
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

// Our request was taken: the queue pair follows, then the peer hears that it may begin.
std::optional<CmEvent> ConnectionId::on_reply(const cm::Event& event) {
  const cm::Rep& rep = cm::body_of<cm::Rep>(*event.mad);
  RoceContext& context = channel_->context();
  facts_.peer_qpn = QpNum{rep.local_qpn};
  ours_.responder_resources = std::min(ours_.responder_resources, rep.initiator_depth);
  ours_.initiator_depth = std::min(ours_.initiator_depth, rep.responder_resources);
  const Result<void> walked = walk({.psn = Psn{rep.starting_psn},
                                    .responder_resources = ours_.responder_resources,
                                    .initiator_depth = ours_.initiator_depth,
                                    .rnr_retry = rep.rnr_retry(),
                                    .retry_count = ours_.retry_count,
                                    .timeout = ours_.timeout});
  if (!walked) {
    phase_ = Phase::over;
    context.with_agent([&](cm::Agent& agent, Instant now) {
      return agent.reject(number_, cm::Reason::consumer, {}, now).ok();
    });
    CmEvent failed = event_of(CmEventType::connect_error);
    failed.error = walked.error();
    return failed;
  }
  phase_ = Phase::decided;
  const bool confirmed = context.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.confirm(number_, now).ok(); });
  if (!confirmed) return std::nullopt;  // the event that says why comes next
  CmEvent done = event_of(CmEventType::established);
  done.peer.private_data = copy_of(rep.private_data);
  done.peer.responder_resources = rep.responder_resources;
  done.peer.initiator_depth = rep.initiator_depth;
  done.peer.rnr_retry = rep.rnr_retry();
  return done;
}

CmEvent ConnectionId::hear_request() {
  CmEvent asked = event_of(CmEventType::connect_request);
  if (service_ == CmService::datagrams) {
    const cm::SidrReq& req = cm::body_of<cm::SidrReq>(request_);
    const bool ip = cm::ip_addresses(req).has_value();
    asked.peer.private_data = copy_of(req.private_data, ip ? sizeof(cm::IpHeader) : 0);
    return asked;
  }
  const cm::Req& req = cm::body_of<cm::Req>(request_);
  const bool ip = cm::ip_addresses(req).has_value();
  asked.peer.private_data = copy_of(req.private_data, ip ? sizeof(cm::IpHeader) : 0);
  asked.peer.responder_resources = req.responder_resources;
  asked.peer.initiator_depth = req.initiator_depth;
  asked.peer.rnr_retry = req.rnr_retry();
  asked.peer.retry_count = req.retry_count();
  asked.peer.timeout = req.primary.ack_timeout >> 3;
  asked.peer.path_mtu = facts_.path_mtu;
  asked.peer.traffic_class = req.primary.traffic_class;
  return asked;
}

CmEvent ConnectionId::hear_service(const cm::Event& event) {
  const cm::SidrRep& rep = cm::body_of<cm::SidrRep>(*event.mad);
  facts_.peer_qpn = QpNum{rep.qpn};
  CmEvent found = event_of(CmEventType::established);
  found.peer.private_data = copy_of(rep.private_data);
  found.service = CmDatagramService{
      .path = {.destination = facts_.peer}, .qpn = QpNum{rep.qpn}, .qkey = rep.qkey};
  return found;
}

std::vector<std::byte> ConnectionId::words_of_refusal(const cm::Mad& mad) const {
  return service_ == CmService::datagrams ? copy_of(cm::body_of<cm::SidrRep>(mad).private_data)
                                          : copy_of(cm::body_of<cm::Rej>(mad).private_data);
}

std::optional<CmEvent> ConnectionId::hear(cm::Event& event) {
  const std::lock_guard hold(mutex_);
  std::optional<CmEvent> told;
  if (!base::memory_permitting([&] { told = translate(event); })) return abort_connection();
  return told;
}

std::optional<CmEvent> ConnectionId::translate(cm::Event& event) {
  switch (event.kind) {
    case cm::EventKind::reply:
      return on_reply(event);
    case cm::EventKind::established:
      return event_of(CmEventType::established);
    case cm::EventKind::request:
      return hear_request();
    default:
      return on_disconnect(event);
  }
}

// It has ended, or never begun: words that there is no memory for are missing.
CmEvent ConnectionId::on_disconnect(const cm::Event& event) {
  const bool walked = phase_ == Phase::decided;
  phase_ = Phase::over;
  if (walked) (void)facts_.qp.modify({.state = QpState::err});
  if (event.kind == cm::EventKind::served) return hear_service(event);
  if (event.kind == cm::EventKind::disconnected) return event_of(CmEventType::disconnected);
  const bool refused = event.kind == cm::EventKind::rejected;
  CmEvent ended = event_of(refused ? CmEventType::rejected : CmEventType::unreachable);
  ended.error.emplace(Error{refused ? Code::disconnected : Code::timed_out, {}});
  if (refused) ended.reason = static_cast<uint16_t>(event.reason);
  (void)base::memory_permitting([&] {
    const std::string who = to_string(facts_.peer);
    ended.error->message =
        refused ? who + ": " + verbs::why_refused(ended.reason) : who + " does not answer";
    if (refused && event.mad) ended.peer.private_data = words_of_refusal(*event.mad);
  });
  return ended;
}

// There is no memory to tell what happened: the other side hears that this is the end.
CmEvent ConnectionId::abort_connection() {
  if (phase_ == Phase::decided) (void)facts_.qp.modify({.state = QpState::err});
  phase_ = Phase::over;
  channel_->context().with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.release(number_, now), true; });
  CmEvent failed = event_of(CmEventType::connect_error);
  failed.error = Error{Code::no_memory, base::kOutOfMemory};
  return failed;
}

}  // namespace weft::roce_provider
