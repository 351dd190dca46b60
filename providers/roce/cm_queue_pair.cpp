// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a connection: what a REQ and a REP say of it, and its transitions to RTS, by
// this side or by the program (IBTA 12.9 and 10.3.1).
#include <algorithm>
#include <bit>

#include "lib/base/undo.hpp"
#include "lib/roce/cm/ip_addressing.hpp"
#include "providers/roce/cm_channel.hpp"

namespace weft::roce_provider {

namespace {

constexpr uint32_t kLargestMtu = 4096;  // of the path MTU field of a REQ

// What this side can agree to for a queue pair that it moves itself. UC and XRC have no such thing.
uint8_t capabilities_of(const Device& device, const QueuePair& qp) {
  const bool selective = qp.type() == QpType::rc && device.attributes().selective_repeat;
  return selective ? cm::kEceSelectiveRepeat : uint8_t{0};
}

}  // namespace

uint8_t ConnectionId::depth_limit() const noexcept {
  return static_cast<uint8_t>(std::min(device_.attributes().max_rd_atomic, 255u));
}

uint32_t ConnectionId::choose_mtu(uint32_t requested) const {
  return requested != 0 ? requested : std::min(device_.attributes().active_mtu, kLargestMtu);
}

Result<void> ConnectionId::connect(const QueuePair& qp, const CmParameters& parameters) {
  const std::lock_guard hold(mutex_);
  offers_ = capabilities_of(device_, qp);
  const Result<void> sent = send_request({.number = qp.number(), .type = qp.type()}, parameters);
  if (sent) facts_.qp = qp;
  return sent;
}

Result<void> ConnectionId::connect(const CmQueuePair& qp, const CmParameters& parameters) {
  const std::lock_guard hold(mutex_);
  offers_ = 0;  // the program need not set what was agreed
  return send_request(qp, parameters);
}

Result<void> ConnectionId::send_request(const CmQueuePair& own, const CmParameters& parameters) {
  if (const Result<void> ok = require_phase(Phase::routed, "connect()", "resolve_route() before");
      !ok)
    return ok;
  const DeviceAttributes& device = device_.attributes();
  const uint32_t mtu = choose_mtu(parameters.path_mtu);
  const uint32_t largest = std::min(device.max_mtu, kLargestMtu);
  if (mtu < 256 || mtu > largest || !std::has_single_bit(mtu))
    return Error{Code::invalid_argument, "path_mtu " + std::to_string(mtu) +
                                             " is not a power of two from 256 to " +
                                             std::to_string(largest)};
  psn_ = parameters.rq_psn.value_or(Psn{context_.random_number() & Psn::kMask});
  parameters_ = parameters;
  const uint8_t limit = depth_limit();
  parameters_.responder_resources = std::min(parameters_.responder_resources, limit);
  parameters_.initiator_depth = std::min(parameters_.initiator_depth, limit);
  if (facts_.port == 0) facts_.port = pick_port();
  offer_ = cm::offer_of(offers_, context_.random_number());
  cm::Offer offer{.qpn = own.number,
                  .psn = psn_,
                  .responder_resources = parameters_.responder_resources,
                  .initiator_depth = parameters_.initiator_depth,
                  .rnr_retry = parameters_.rnr_retry,
                  .shared_receives = own.shared_receives,
                  .ece = offer_,
                  .transport = cm::transport_of(own.type),
                  .path_mtu = mtu,
                  .retry_count = parameters_.retry_count,
                  .ack_timeout = parameters_.timeout,
                  .traffic_class = parameters_.traffic_class,
                  .source_port = facts_.port,
                  .private_data = parameters_.private_data};
  // No event is taken before the id is registered: take() acquires the same lock.
  const Result<uint32_t> number = context_.with_agent([&](cm::Agent& agent, Instant now) {
    Result<uint32_t> made =
        agent.connect(facts_.peer, service_id(facts_.peer_port), offer, channel_->inbox(), now);
    if (!made) return made;
    base::Undo undo([&] { agent.release(*made, now); });
    channel_->register_id(*made, shared_from_this());
    undo.forget();
    return made;
  });
  if (!number) return number.error();
  agent_id_ = *number;
  own_ = own;
  facts_.path_mtu = mtu;
  phase_ = Phase::request_sent;
  return {};
}

Result<void> ConnectionId::establish() {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::response_received, "establish()", "connect_response before");
      !ok)
    return ok;
  const Result<void> confirmed = context_.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.confirm(agent_id_, now); });
  if (confirmed) phase_ = Phase::accepted;
  return confirmed;
}

QueuePairAttributes ConnectionId::rtr_attributes() const {
  QueuePairAttributes rtr{
      .state = QpState::rtr,
      .path = AddressVector{.destination = facts_.peer, .traffic_class = parameters_.traffic_class},
      .path_mtu = facts_.path_mtu,
      .dest_qpn = facts_.peer_qpn,
      .rq_psn = psn_};
  if (own_.type == QpType::rc || own_.type == QpType::xrc_target) {
    rtr.max_dest_rd_atomic = parameters_.responder_resources;
    rtr.min_rnr_timer = parameters_.min_rnr_timer;
  }
  if ((agreed_ & cm::kEceSelectiveRepeat) != 0) rtr.selective_repeat = true;
  return rtr;
}

QueuePairAttributes ConnectionId::rts_attributes() const {
  QueuePairAttributes rts{.state = QpState::rts, .sq_psn = peer_.psn};
  if (own_.type == QpType::rc || own_.type == QpType::xrc_initiator) {
    rts.max_rd_atomic = parameters_.initiator_depth;
    rts.timeout = peer_.timeout;
    rts.retry_count = peer_.retry_count;
    rts.rnr_retry = peer_.rnr_retry;
  }
  return rts;
}

Result<QueuePairAttributes> ConnectionId::attributes(QpState state) {
  const std::lock_guard hold(mutex_);
  QueuePairAttributes init{.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}};
  if (service_ == CmService::datagrams) {
    init.qkey = kCmQkey;
    if (state == QpState::init) return init;
    if (state == QpState::rtr) return QueuePairAttributes{.state = state};
    return QueuePairAttributes{.state = state, .sq_psn = Psn{}};
  }
  init.access = parameters_.access;
  if (state == QpState::init) return init;
  if (phase_ != Phase::request_received && phase_ != Phase::response_received &&
      phase_ != Phase::accepted)
    return Error{Code::bad_state,
                 "the attributes of RTR and RTS are known after connect_request or "
                 "connect_response"};
  return state == QpState::rtr ? rtr_attributes() : rts_attributes();
}

// Moves the queue pair to RTS. Each side chose the first PSN of the other. //= roce:C-STATE-54
Result<void> ConnectionId::connect_queue_pair() {
  const QueuePair& qp = facts_.qp;
  if (qp.state() == QpState::reset) {
    const Result<void> init = qp.modify({.state = QpState::init,
                                         .pkey_index = uint16_t{0},
                                         .port = uint8_t{1},
                                         .access = parameters_.access});
    if (!init) return init;
  }
  if (const Result<void> ok = qp.modify(rtr_attributes()); !ok) return ok;
  return qp.modify(rts_attributes());
}

void ConnectionId::set_queue_pair_to_err() const {
  if (facts_.qp) (void)facts_.qp.modify({.state = QpState::err});
}

Result<void> ConnectionId::serve(QpNum number, uint32_t qkey, const CmParameters& parameters) {
  const Result<void> result = context_.with_agent([&](cm::Agent& agent, Instant now) {
    return agent.serve(agent_id_, number, qkey, parameters.private_data, now);
  });
  if (result) phase_ = Phase::closed;
  return result;
}

// Checks what accept() is given against the request, and settles what both sides have agreed on.
Result<void> ConnectionId::agree(const CmQueuePair& own, const CmParameters& parameters) {
  if (parameters.private_data.size() > sizeof(cm::Rep::private_data))
    return Error{Code::invalid_argument, "the private data of accept() has at most 196 bytes"};
  const cm::Req& req = cm::body_of<cm::Req>(request_);
  const QpType wanted = cm::type_of_acceptor(req);
  if (wanted != own.type)
    return Error{Code::invalid_argument, "the peer's request is for a queue pair of type " +
                                             std::string(name(wanted)) + ", this one is " +
                                             std::string(name(own.type))};
  const uint32_t largest = device_.attributes().max_mtu;
  if (facts_.path_mtu > largest)
    return Error{Code::invalid_argument,
                 "the peer wants a path MTU of " + std::to_string(facts_.path_mtu) +
                     ", this device has at most " + std::to_string(largest)};
  const uint8_t traffic_class = parameters_.traffic_class;
  parameters_ = parameters;
  parameters_.traffic_class = traffic_class;
  if (parameters.rq_psn) psn_ = *parameters.rq_psn;
  const uint8_t limit = depth_limit();
  parameters_.responder_resources =
      std::min({parameters_.responder_resources, req.initiator_depth, limit});
  parameters_.initiator_depth =
      std::min({parameters_.initiator_depth, req.responder_resources, limit});
  own_ = own;
  return {};
}

Result<void> ConnectionId::send_reply() {
  const Result<void> sent = context_.with_agent([&](cm::Agent& agent, Instant now) {
    return agent.accept(agent_id_,
                        {.qpn = own_.number,
                         .psn = psn_,
                         .responder_resources = parameters_.responder_resources,
                         .initiator_depth = parameters_.initiator_depth,
                         .rnr_retry = parameters_.rnr_retry,
                         .shared_receives = own_.shared_receives,
                         .ece = answer_,
                         .transport = cm::transport_of(own_.type),
                         .private_data = parameters_.private_data},
                        now);
  });
  if (sent) phase_ = Phase::accepted;
  return sent;
}

Result<void> ConnectionId::accept(const QueuePair& qp, const CmParameters& parameters) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_request("accept()"); !ok) return ok;
  if (service_ == CmService::datagrams)
    return serve(qp.number(), qp.query().qkey.value_or(0), parameters);
  if (const Result<void> ok = agree({.number = qp.number(), .type = qp.type()}, parameters); !ok)
    return ok;
  facts_.qp = qp;
  answer_ = cm::answer_to(cm::ece_of_req(request_), capabilities_of(device_, qp));
  agreed_ = cm::agreed(cm::ece_of_req(request_), answer_);
  Result<void> result = connect_queue_pair();
  if (result) result = send_reply();
  if (!result && qp.state() != QpState::reset) set_queue_pair_to_err();
  return result;
}

Result<void> ConnectionId::accept(const CmQueuePair& qp, const CmParameters& parameters) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_request("accept()"); !ok) return ok;
  if (service_ == CmService::datagrams) return serve(qp.number, qp.qkey, parameters);
  const Result<void> agreed = agree(qp, parameters);
  return agreed ? send_reply() : agreed;
}

}  // namespace weft::roce_provider
