// SPDX-License-Identifier: BSD-3-Clause
// See connections.hpp.
#include "lib/adapters/fi/msg/connections.hpp"

#include <algorithm>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/msg/connect.hpp"
#include "lib/adapters/fi/msg/endpoint.hpp"

namespace weft::fi {
namespace {

constexpr size_t kMostRequests = 4096;  // that the program has neither accepted nor rejected

}  // namespace

void ConnectRequest::release() noexcept { owner->remove(*this); }

Result<Connections*> Connections::of(Eq& eq) {
  static std::mutex creating;  // endpoints may be bound by several threads
  const std::lock_guard hold(creating);
  if (eq.connections) return static_cast<Connections*>(eq.connections.get());
  auto channel = CmChannel::create(eq.fabric.device->device);
  if (!channel) return channel.error();
  auto* connections = new Connections(eq, *channel);
  eq.connections.reset(connections);
  eq.waiting.add(connections);
  return connections;
}

void Connections::add(const CmId& id, Ep& ep) {
  const std::lock_guard hold(lock_);
  endpoints_[id.impl().get()] = &ep;
}

void Connections::add(const CmId& id, Pep& pep) {
  const std::lock_guard hold(lock_);
  listeners_[id.impl().get()] = &pep;
}

void Connections::forget(const Ep& ep) noexcept {
  const std::lock_guard hold(lock_);
  std::erase_if(endpoints_, [&](const auto& entry) { return entry.second == &ep; });
}

void Connections::forget(const Pep& pep) noexcept {
  const std::lock_guard hold(lock_);
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &pep; });
}

void Connections::remove(const ConnectRequest& request) noexcept {
  const std::lock_guard hold(lock_);
  requests_.erase(&request);
}

void Connections::progress() noexcept {
  const std::lock_guard hold(lock_);
  while (const auto event = channel_.next()) guarded([&] { return handle(*event), 0; });
}

void Connections::handle(const CmEvent& event) {
  if (event.type == CmEventType::connect_request) return on_request(event);
  const auto at = endpoints_.find(event.id.impl().get());
  if (at != endpoints_.end()) on_event(*at->second, event);
}

void Connections::on_request(const CmEvent& event) {
  const auto at = listeners_.find(event.listener.impl().get());
  // The id is destroyed: a rejection.
  if (at == listeners_.end() || requests_.size() >= kMostRequests) return;
  Pep& pep = *at->second;
  Info info(fi_dupinfo(pep.info.get()));
  if (!info || !set_source(*info, pep.name) ||
      !set_destination(*info, {event.id.peer_gid(), event.id.peer_port(), {}}))
    return;
  auto request = std::make_unique<ConnectRequest>(
      ConnectRequest{.fid = {.fclass = FI_CLASS_CONNREQ, .context = nullptr, .ops = nullptr},
                     .id = event.id,
                     .owner = this});
  info->handle = &request->fid;
  const auto data = connection_data_in(event.peer.private_data);
  requests_.emplace(request.get(), std::move(request));
  eq_.push_connection(FI_CONNREQ, &pep.fid, info.release(), data.data(), data.size());
}

void Connections::on_event(Ep& ep, const CmEvent& event) {
  const auto check = [&](const Result<void>& done) {
    if (!done) eq_.push_error(&ep.fid, -failed(FI_LOG_EP_CTRL, "fi_connect", done.error()), {}, 0);
  };
  const auto data = connection_data_in(event.peer.private_data);
  switch (event.type) {
    case CmEventType::address_resolved:
      return check(ep.id.resolve_route());
    case CmEventType::route_resolved:
      return check(ep.id.connect(ep.qp, parameters_of(ep, ep.connection_data)));
    case CmEventType::established:
      ep.is_connected = true;
      return eq_.push_connection(FI_CONNECTED, &ep.fid, nullptr, data.data(), data.size());
    case CmEventType::rejected:
      return eq_.push_error(&ep.fid, FI_ECONNREFUSED, data.data(), data.size());
    case CmEventType::unreachable:
      return eq_.push_error(&ep.fid, FI_ETIMEDOUT, {}, 0);
    case CmEventType::connect_error:
      return eq_.push_error(&ep.fid, FI_ECONNABORTED, {}, 0);
    case CmEventType::disconnected:
      if (ep.is_connected && !std::exchange(ep.is_shut, true))
        eq_.push_connection(FI_SHUTDOWN, &ep.fid, nullptr, {}, 0);
      return;
    default:
      return;
  }
}

}  // namespace weft::fi
