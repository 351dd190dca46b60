// SPDX-License-Identifier: BSD-3-Clause
// One connection: its calls but those that concern its queue pair (cm_queue_pair.cpp). IBTA 12.9.
#include <algorithm>

#include "lib/base/undo.hpp"
#include "lib/roce/cm/ip_addressing.hpp"
#include "providers/roce/cm_channel.hpp"

namespace weft::roce_provider {

namespace {

constexpr uint32_t kFirstFreePort = 0xC000, kFreePorts = 0x4000;

// Another device listens on a port of the address of `device`.
Error in_use(uint16_t port, const Device& device, const Error& why) {
  return {why.code, "port " + std::to_string(port) + " of " + to_string(device.attributes().gid) +
                        ": " + why.message};
}

}  // namespace

ConnectionId::ConnectionId(std::shared_ptr<ConnectionChannel> channel, CmService service)
    : device_(channel->device()),
      context_(channel->context()),
      channel_(std::move(channel)),
      service_(service) {}

ConnectionId::ConnectionId(std::shared_ptr<ConnectionChannel> channel, const cm::Event& request)
    : device_(channel->device()),
      context_(channel->context()),
      channel_(std::move(channel)),
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
  own_.type = cm::type_of_acceptor(req);
  psn_ = Psn{context_.random_number() & Psn::kMask};
  peer_ = {.psn = Psn{req.starting_psn},
           .rnr_retry = req.rnr_retry(),
           .retry_count = req.retry_count(),
           .timeout = static_cast<uint8_t>(req.primary.ack_timeout >> 3)};
  parameters_.responder_resources = std::min(req.initiator_depth, depth_limit());
  parameters_.initiator_depth = std::min(req.responder_resources, depth_limit());
  parameters_.traffic_class = req.primary.traffic_class;
  if (const auto ip = cm::ip_addresses(req)) facts_.peer_port = ip->source_port;
}

ConnectionId::~ConnectionId() {
  if (context_.forked()) return;
  const uint64_t service = service_id(facts_.port);
  if (phase_ == Phase::accepted) set_queue_pair_to_err();
  if (phase_ == Phase::listening) channel_->unregister_listener(service);
  if (agent_id_ != 0) channel_->unregister_id(agent_id_);
  context_.with_agent([&](cm::Agent& agent, Instant now) {
    if (phase_ == Phase::listening) {
      context_.port().release_service(service);
      agent.stop_listening(service, now);
    }
    agent.release(agent_id_, now);
    return true;
  });
}

uint64_t ConnectionId::service_id(uint16_t port) const {
  return service_ == CmService::datagrams ? cm::datagram_service_of(port) : cm::service_of(port);
}

Result<void> ConnectionId::require_phase(Phase phase, const char* call, const char* instead) const {
  if (context_.forked()) return Error{Code::permission_denied, software::kForked};
  if (phase_ == phase) return {};
  return Error{Code::bad_state, std::string(call) + " needs " + instead};
}

// A request is rejected or accepted once.
Result<void> ConnectionId::require_request(const char* call) const {
  return require_phase(Phase::request_received, call, "the id of a connect_request");
}

uint16_t ConnectionId::pick_port() {
  return static_cast<uint16_t>(kFirstFreePort + context_.random_number() % kFreePorts);
}

Result<void> ConnectionId::bind(uint16_t port) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::idle, "bind()", "a new CmId"); !ok) return ok;
  if (facts_.port != 0)
    return Error{Code::bad_state, "this id has port " + std::to_string(facts_.port) + " already"};
  facts_.port = port != 0 ? port : pick_port();
  return {};
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

Result<void> ConnectionId::listen(uint16_t wanted) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::idle, "listen()", "a new CmId"); !ok) return ok;
  const uint16_t port = wanted != 0 ? wanted : facts_.port;
  const uint32_t attempts = port != 0 ? 1 : kFreePorts;
  Result<void> listens;
  for (uint32_t i = 0; i < attempts; ++i) {
    const uint16_t candidate = port != 0 ? port : pick_port();
    const uint64_t service = service_id(candidate);
    listens = context_.with_agent([&](cm::Agent& agent, Instant now) {
      Result<void> claimed = agent.listen(service, channel_->inbox());
      if (!claimed) return claimed;
      base::Undo undo([&] { agent.stop_listening(service, now); });
      claimed = context_.port().claim_service(service);
      if (!claimed) return Result<void>(in_use(candidate, device_, claimed.error()));
      base::Undo release([&] { context_.port().release_service(service); });
      channel_->register_listener(service, shared_from_this());
      release.forget();
      undo.forget();
      return claimed;
    });
    if (!listens && listens.error().code == Code::address_in_use) continue;
    if (!listens) return listens;
    facts_.port = candidate;
    phase_ = Phase::listening;
    break;
  }
  return listens;
}

Result<void> ConnectionId::find_service(std::span<const std::byte> private_data) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::routed, "find_service()", "resolve_route() before");
      !ok)
    return ok;
  if (facts_.port == 0) facts_.port = pick_port();
  const Result<uint32_t> number = context_.with_agent([&](cm::Agent& agent, Instant now) {
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

Result<void> ConnectionId::reject(std::span<const std::byte> private_data) {
  const std::lock_guard hold(mutex_);
  if (phase_ != Phase::response_received) {
    if (const Result<void> ok = require_request("reject()"); !ok) return ok;
  }
  const Result<void> result = context_.with_agent([&](cm::Agent& agent, Instant now) {
    return agent.reject(agent_id_, cm::Reason::consumer, private_data, now);
  });
  if (result) phase_ = Phase::closed;
  return result;
}

Result<void> ConnectionId::disconnect() {
  const std::lock_guard hold(mutex_);
  if (context_.forked()) return Error{Code::permission_denied, software::kForked};
  if (phase_ == Phase::closed) return {};
  if (phase_ != Phase::accepted)
    return Error{Code::bad_state, "disconnect() needs a connection that is established"};
  set_queue_pair_to_err();
  return context_.with_agent(
      [&](cm::Agent& agent, Instant now) { return agent.disconnect(agent_id_, now); });
}

verbs::CmId::Facts ConnectionId::facts() const {
  const std::lock_guard hold(mutex_);
  return facts_;
}

// The lock order is that of taking an event: the turn of the channel, then the id.
Result<void> ConnectionId::migrate(const std::shared_ptr<verbs::CmChannel>& to) {
  const auto next = std::dynamic_pointer_cast<ConnectionChannel>(to);
  if (next == nullptr || &next->context() != &context_)
    return Error{Code::invalid_argument, "migrate() needs a channel of the same device"};
  std::shared_ptr<ConnectionChannel> old;
  {
    const std::lock_guard hold(mutex_);
    if (context_.forked()) return Error{Code::permission_denied, software::kForked};
    old = channel_;
  }
  if (old == next) return {};
  const std::lock_guard turn(old->take_mutex());
  const std::lock_guard hold(mutex_);
  std::optional<uint64_t> service;
  if (phase_ == Phase::listening) service = service_id(facts_.port);
  old->move(shared_from_this(), agent_id_, service, *next);
  channel_ = next;
  return {};
}

}  // namespace weft::roce_provider
