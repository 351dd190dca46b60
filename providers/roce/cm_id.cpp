// SPDX-License-Identifier: BSD-3-Clause
// One connection: calls of the application, and the transitions of its queue pair (IBTA 12.9 and
// 10.3.1).
#include <algorithm>
#include <bit>

#include "lib/base/undo.hpp"
#include "lib/roce/cm/ip_addressing.hpp"
#include "providers/roce/cm_channel.hpp"

namespace weft::roce_provider {

namespace {

constexpr uint32_t kLargestMtu = 4096;  // of the path MTU field of a REQ
constexpr uint32_t kFirstFreePort = 0xC000, kFreePorts = 0x4000;

}  // namespace

ConnectionId::ConnectionId(std::shared_ptr<ConnectionChannel> channel, const cm::Event& request)
    : channel_(std::move(channel)),
      service_((request.service_id & ~uint64_t{0xFFFF}) == cm::kPortSpaceUdp
                   ? CmService::datagrams
                   : CmService::connections),
      phase_(Phase::request_received),
      agent_id_(request.id),
      request_(*request.mad) {
  facts_.port = static_cast<uint16_t>(request.service_id);
  facts_.peer = request.peer;
  if (service_ == CmService::datagrams) {
    if (const auto ip = cm::ip_addresses(cm::body_of<cm::SidrReq>(request_)))
      facts_.peer_port = ip->source_port;
    return;
  }
  const cm::Req& req = cm::body_of<cm::Req>(request_);
  facts_.peer_qpn = QpNum{req.local_qpn};
  facts_.path_mtu = cm::mtu_of(req.mtu_code());
  if (const auto ip = cm::ip_addresses(req)) facts_.peer_port = ip->source_port;
}

ConnectionId::~ConnectionId() {
  if (channel_->context().forked()) return;
  const uint64_t service = service_id(facts_.port);
  if (phase_ == Phase::accepted) (void)facts_.qp.modify({.state = QpState::err});
  if (phase_ == Phase::listening) channel_->unregister_listener(service);
  if (agent_id_ != 0) channel_->unregister_id(agent_id_);
  channel_->context().with_agent([&](cm::Agent& agent, Instant now) {
    if (phase_ == Phase::listening) agent.stop_listening(service);
    agent.release(agent_id_, now);
    return true;
  });
}

uint64_t ConnectionId::service_id(uint16_t port) const {
  return service_ == CmService::datagrams ? cm::datagram_service_of(port) : cm::service_of(port);
}

Result<void> ConnectionId::require_phase(Phase phase, const char* call, const char* instead) const {
  if (channel_->context().forked()) return Error{Code::permission_denied, software::kForked};
  if (phase_ == phase) return {};
  return Error{Code::bad_state, std::string(call) + " needs " + instead};
}

Result<void> ConnectionId::resolve_address(const Gid& peer, uint16_t port) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::idle, "resolve_address()", "a new CmId"); !ok)
    return ok;
  channel_->post(CmEventType::address_resolved, shared_from_this());
  facts_.peer = peer;
  facts_.peer_port = port;
  phase_ = Phase::resolved;
  return {};
}

Result<void> ConnectionId::resolve_route() {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::resolved, "resolve_route()", "resolve_address() before");
      !ok)
    return ok;
  channel_->post(CmEventType::route_resolved, shared_from_this());
  phase_ = Phase::routed;
  return {};
}

Result<void> ConnectionId::listen(uint16_t port) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::idle, "listen()", "a new CmId"); !ok) return ok;
  const uint32_t first = port != 0 ? 0 : channel_->context().random_number();
  for (uint32_t i = 0; i < (port != 0 ? 1 : kFreePorts); ++i) {
    if (first != 0 || port == 0)
      facts_.port = static_cast<uint16_t>(kFirstFreePort + (first + i) % kFreePorts);
    else
      facts_.port = port;
    const uint64_t service = service_id(facts_.port);
    const Result<void> ok = channel_->context().with_agent([&](cm::Agent& agent, Instant) {
      Result<void> listens = agent.listen(service, channel_->inbox());
      if (!listens) return listens;
      base::Undo undo([&] { agent.stop_listening(service); });
      channel_->register_listener(service, shared_from_this());
      undo.forget();
      return listens;
    });
    if (!ok && i + 1 < kFreePorts && port == 0) continue;
    if (!ok) return ok;
    phase_ = Phase::listening;
    return {};
  }
  return {};
}

uint32_t ConnectionId::choose_mtu(uint32_t requested) const {
  return requested != 0 ? requested
                        : std::min(channel_->device().attributes().active_mtu, kLargestMtu);
}

Result<void> ConnectionId::connect(const QueuePair& qp, const CmParameters& parameters) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::routed, "connect()", "resolve_route() before");
      !ok)
    return ok;
  const DeviceAttributes& device = channel_->device().attributes();
  const uint32_t mtu = choose_mtu(parameters.path_mtu);
  const uint32_t largest = std::min(device.max_mtu, kLargestMtu);
  if (mtu < 256 || mtu > largest || !std::has_single_bit(mtu))
    return Error{Code::invalid_argument, "path_mtu " + std::to_string(mtu) +
                                             " is not a power of two from 256 to " +
                                             std::to_string(largest)};
  RoceContext& context = channel_->context();
  psn_ = parameters.rq_psn.value_or(Psn{context.random_number() & Psn::kMask});
  parameters_ = parameters;
  const auto limit = static_cast<uint8_t>(std::min(device.max_rd_atomic, 255u));
  parameters_.responder_resources = std::min(parameters_.responder_resources, limit);
  parameters_.initiator_depth = std::min(parameters_.initiator_depth, limit);
  facts_.port = static_cast<uint16_t>(kFirstFreePort + context.random_number() % kFreePorts);
  cm::Offer offer{.qpn = qp.number(),
                  .psn = psn_,
                  .responder_resources = parameters_.responder_resources,
                  .initiator_depth = parameters_.initiator_depth,
                  .rnr_retry = parameters_.rnr_retry,
                  .transport = qp.type() == QpType::uc ? cm::Transport::uc : cm::Transport::rc,
                  .path_mtu = mtu,
                  .retry_count = parameters_.retry_count,
                  .ack_timeout = parameters_.timeout,
                  .traffic_class = parameters_.traffic_class,
                  .source_port = facts_.port,
                  .private_data = parameters_.private_data};
  // No event is taken before the id is registered: take() acquires the same lock.
  const Result<uint32_t> number = context.with_agent([&](cm::Agent& agent, Instant now) {
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
  facts_.qp = qp;
  facts_.path_mtu = mtu;
  phase_ = Phase::request_sent;
  return {};
}

Result<void> ConnectionId::find_service(std::span<const std::byte> private_data) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::routed, "find_service()", "resolve_route() before");
      !ok)
    return ok;
  RoceContext& context = channel_->context();
  facts_.port = static_cast<uint16_t>(kFirstFreePort + context.random_number() % kFreePorts);
  const Result<uint32_t> number = context.with_agent([&](cm::Agent& agent, Instant now) {
    Result<uint32_t> made = agent.find_service(facts_.peer, service_id(facts_.peer_port),
                                               facts_.port, private_data, channel_->inbox(), now);
    if (!made) return made;
    base::Undo undo([&] { agent.release(*made, now); });
    channel_->register_id(*made, shared_from_this());
    undo.forget();
    return made;
  });
  if (!number) return number.error();
  agent_id_ = *number;
  phase_ = Phase::request_sent;
  return {};
}

// Moves the queue pair from RESET to RTS. Each side chose the first PSN of the other.
// //= roce:C-STATE-54
Result<void> ConnectionId::connect_queue_pair(const Peer& peer) {
  const QueuePair& qp = facts_.qp;
  const bool rc = qp.type() == QpType::rc;
  if (qp.state() == QpState::reset) {
    const Result<void> init = qp.modify({.state = QpState::init,
                                         .pkey_index = uint16_t{0},
                                         .port = uint8_t{1},
                                         .access = parameters_.access});
    if (!init) return init;
  }
  QueuePairAttributes rtr{
      .state = QpState::rtr,
      .path = AddressVector{.destination = facts_.peer, .traffic_class = parameters_.traffic_class},
      .path_mtu = facts_.path_mtu,
      .dest_qpn = facts_.peer_qpn,
      .rq_psn = psn_};
  QueuePairAttributes rts{.state = QpState::rts, .sq_psn = peer.psn};
  if (rc) {
    rtr.max_dest_rd_atomic = peer.responder_resources;
    rtr.min_rnr_timer = parameters_.min_rnr_timer;
    rts.max_rd_atomic = peer.initiator_depth;
    rts.timeout = peer.timeout;
    rts.retry_count = peer.retry_count;
    rts.rnr_retry = peer.rnr_retry;
  }
  if (const Result<void> ok = qp.modify(rtr); !ok) return ok;
  return qp.modify(rts);
}

Result<void> ConnectionId::serve(const QueuePair& qp, const CmParameters& parameters) {
  const uint32_t qkey = qp.query().qkey.value_or(0);
  const Result<void> result = channel_->context().with_agent([&](cm::Agent& agent, Instant now) {
    return agent.serve(agent_id_, qp.number(), qkey, parameters.private_data, now);
  });
  if (result) phase_ = Phase::closed;
  return result;
}

Result<void> ConnectionId::accept(const QueuePair& qp, const CmParameters& parameters) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::request_received, "accept()", "the id of a connect_request");
      !ok)
    return ok;
  if (service_ == CmService::datagrams) return serve(qp, parameters);
  if (parameters.private_data.size() > sizeof(cm::Rep::private_data))
    return Error{Code::invalid_argument, "the private data of accept() has at most 196 bytes"};
  const cm::Req& req = cm::body_of<cm::Req>(request_);
  const bool uc = req.transport() == cm::Transport::uc;
  if (uc != (qp.type() == QpType::uc))
    return Error{Code::invalid_argument, std::string("the peer has a queue pair of type ") +
                                             (uc ? "uc" : "rc") + ", this one is another"};
  if (facts_.path_mtu > channel_->device().attributes().max_mtu)
    return Error{Code::invalid_argument, "the peer wants a path MTU of " +
                                             std::to_string(facts_.path_mtu) +
                                             ", more than this device has"};
  RoceContext& context = channel_->context();
  parameters_ = parameters;
  psn_ = parameters.rq_psn.value_or(Psn{context.random_number() & Psn::kMask});
  const auto limit =
      static_cast<uint8_t>(std::min(channel_->device().attributes().max_rd_atomic, 255u));
  parameters_.responder_resources =
      std::min({parameters_.responder_resources, req.initiator_depth, limit});
  parameters_.initiator_depth =
      std::min({parameters_.initiator_depth, req.responder_resources, limit});
  parameters_.traffic_class = req.primary.traffic_class;
  facts_.qp = qp;
  const Result<void> connected =
      connect_queue_pair({.psn = Psn{req.starting_psn},
                          .responder_resources = parameters_.responder_resources,
                          .initiator_depth = parameters_.initiator_depth,
                          .rnr_retry = req.rnr_retry(),
                          .retry_count = req.retry_count(),
                          .timeout = static_cast<uint8_t>(req.primary.ack_timeout >> 3)});
  Result<void> result = connected;
  if (connected)
    result = context.with_agent([&](cm::Agent& agent, Instant now) {
      return agent.accept(agent_id_,
                          {.qpn = qp.number(),
                           .psn = psn_,
                           .responder_resources = parameters_.responder_resources,
                           .initiator_depth = parameters_.initiator_depth,
                           .rnr_retry = parameters_.rnr_retry,
                           .private_data = parameters_.private_data},
                          now);
    });
  if (result)
    phase_ = Phase::accepted;
  else if (qp.state() != QpState::reset)
    (void)qp.modify({.state = QpState::err});
  return result;
}

Result<void> ConnectionId::reject(std::span<const std::byte> private_data) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::request_received, "reject()", "the id of a connect_request");
      !ok)
    return ok;
  const Result<void> result = channel_->context().with_agent([&](cm::Agent& agent, Instant now) {
    return agent.reject(agent_id_, cm::Reason::consumer, private_data, now);
  });
  if (result) phase_ = Phase::closed;
  return result;
}

Result<void> ConnectionId::disconnect() {
  const std::lock_guard hold(mutex_);
  if (channel_->context().forked()) return Error{Code::permission_denied, software::kForked};
  if (phase_ == Phase::closed) return {};
  if (phase_ != Phase::accepted)
    return Error{Code::bad_state, "disconnect() needs a connection that is established"};
  (void)facts_.qp.modify({.state = QpState::err});
  return channel_->context().with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.disconnect(agent_id_, now); });
}

verbs::CmId::Facts ConnectionId::facts() const {
  const std::lock_guard hold(mutex_);
  return facts_;
}

const Device& ConnectionId::device() const noexcept { return channel_->device(); }

}  // namespace weft::roce_provider
