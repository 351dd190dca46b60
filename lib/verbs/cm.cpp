// SPDX-License-Identifier: BSD-3-Clause
// The handles of the connection manager: parameter checks that all providers share, and address
// parsing.
#include "lib/verbs/cm.hpp"

#include <algorithm>
#include <initializer_list>

#include "lib/base/guarded.hpp"
#include "lib/base/socket_gid.hpp"
#include "lib/base/tcp.hpp"
#include "lib/verbs/provider.hpp"

namespace weft {

using base::guarded;

std::string verbs::describe_rejection(uint16_t reason) {
  constexpr uint16_t kNoResources = 3, kTimeout = 4;
  switch (reason) {
    case kCmNoListener:
      return "no listener on that port: start the server first, check address and port";
    case kCmStale:
      return "the peer still has a connection of this queue pair number from before a restart; it "
             "ends that now: connect again";
    case kCmConsumer:
      return "the peer's program refused";
    case kNoResources:
      return "the peer has no room for another connection";
    case kTimeout:
      return "the peer has given up waiting";
    default:
      return "the peer refused with reason " + std::to_string(reason) + " of IBTA 12.6.7.2";
  }
}

namespace {

Error no_id() { return {Code::bad_state, "this CmId is empty: create_id() makes one"}; }

// The first address of the host that is of the device's family.
Result<Gid> find_peer(const base::HostPort& where, const Gid& device) {
  if (const Result<Gid> literal = parse_gid(where.host); literal) {
    if (literal->is_ipv4() == device.is_ipv4()) return literal;
    return Error{Code::not_found, where.host + " is not of the address family of this device (" +
                                      to_string(device) + ")"};
  }
  const Result<std::vector<base::SocketAddress>> all = base::resolve(where, false);
  if (!all) return all.error();
  for (const base::SocketAddress& address : *all) {
    const Gid gid = base::gid_of(address.storage);
    if (gid.is_ipv4() == device.is_ipv4()) return gid;
  }
  return Error{Code::not_found, where.host + " has no address of the family of this device (" +
                                    to_string(device) + ")"};
}

Result<void> check_device(const CmId& id, const QueuePair& qp) {
  if (!qp) return Error{Code::invalid_argument, "a connection needs a queue pair"};
  if (qp.device().context() != id.impl()->device().context())
    return Error{Code::invalid_argument, "the queue pair is of another device than the CmChannel"};
  return {};
}

// Checks a UD queue pair that serves a port.
Result<void> check_server(const CmId& id, const QueuePair& qp) {
  if (const Result<void> ok = check_device(id, qp); !ok) return ok;
  if (qp.type() != QpType::ud)
    return Error{Code::invalid_argument, "the client asks for a UD queue pair, this one is " +
                                             std::string(name(qp.type()))};
  const QpState state = qp.state();
  if (state != QpState::rtr && state != QpState::rts)
    return Error{Code::bad_state,
                 "the queue pair must be in RTR or RTS, it is in " + std::string(name(state))};
  return {};
}

Result<void> check_parameters(const CmId& id, const CmParameters& p) {
  if (id.impl()->service() == CmService::datagrams)
    return Error{Code::bad_state,
                 "an id for datagrams has no connection: find_service(), or "
                 "CmChannel::create_id(CmService::connections)"};
  if (p.rnr_retry > 7 || p.retry_count > 7 || p.timeout > 31)
    return Error{Code::invalid_argument,
                 "rnr_retry and retry_count are 0..7, timeout is 0..31 in CmParameters"};
  if (p.rq_psn && p.rq_psn->value > Psn::kMask)
    return Error{Code::invalid_argument, "rq_psn has more than 24 bits"};
  return {};
}

Result<void> check_connected(const CmId& id, const QueuePair& qp, const CmParameters& p) {
  if (const Result<void> ok = check_device(id, qp); !ok) return ok;
  if (const Result<void> ok = check_parameters(id, p); !ok) return ok;
  if (qp.type() != QpType::rc && qp.type() != QpType::uc)
    return Error{Code::invalid_argument, "only RC and UC queue pairs are connected, this one is " +
                                             std::string(name(qp.type()))};
  const QpState state = qp.state();
  if (state != QpState::reset && state != QpState::init)
    return Error{Code::bad_state,
                 "the queue pair must be in RESET or INIT, it is in " + std::string(name(state))};
  return {};
}

// Checks a queue pair that the program moves itself; `types` are those that the call accepts.
Result<void> check_own(const CmQueuePair& qp, std::initializer_list<QpType> types) {
  if (qp.number.value == 0 || qp.number.value > Psn::kMask)
    return Error{Code::invalid_argument,
                 "queue pair number " + std::to_string(qp.number.value) + " is not 1..0xffffff"};
  if (std::find(types.begin(), types.end(), qp.type) == types.end())
    return Error{Code::invalid_argument,
                 "this call takes no queue pair of type " + std::string(name(qp.type))};
  return {};
}

}  // namespace

std::string_view name(CmEventType type) noexcept {
  switch (type) {
    case CmEventType::address_resolved:
      return "address_resolved";
    case CmEventType::route_resolved:
      return "route_resolved";
    case CmEventType::connect_request:
      return "connect_request";
    case CmEventType::connect_response:
      return "connect_response";
    case CmEventType::established:
      return "established";
    case CmEventType::rejected:
      return "rejected";
    case CmEventType::unreachable:
      return "unreachable";
    case CmEventType::connect_error:
      return "connect_error";
    case CmEventType::disconnected:
      return "disconnected";
  }
  return "unknown";
}

Result<void> CmId::resolve_address(std::string_view address) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    const Result<base::HostPort> where = base::parse_host_port(address, 0);
    if (!where) return where.error();
    if (where->host.empty() || where->port == 0)
      return Error{Code::invalid_argument,
                   "resolve_address() needs host and port, like "
                   "10.0.0.1:7174; not '" +
                       std::string(address) + "'"};
    const Result<Gid> peer = find_peer(*where, impl_->device().attributes().gid);
    if (!peer) return peer.error();
    return impl_->resolve_address(*peer, where->port);
  });
}

Result<void> CmId::resolve_route() const {
  return guarded([&] { return impl_ ? impl_->resolve_route() : no_id(); });
}
Result<void> CmId::bind(uint16_t port) const {
  return guarded([&] { return impl_ ? impl_->bind(port) : no_id(); });
}
Result<void> CmId::listen(uint16_t port) const {
  return guarded([&] { return impl_ ? impl_->listen(port) : no_id(); });
}

Result<void> CmId::connect(const QueuePair& qp, const CmParameters& parameters) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    if (const Result<void> ok = check_connected(*this, qp, parameters); !ok) return ok;
    return impl_->connect(qp, parameters);
  });
}

Result<void> CmId::connect(const CmQueuePair& qp, const CmParameters& parameters) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    if (const Result<void> ok = check_parameters(*this, parameters); !ok) return ok;
    const Result<void> ok = check_own(qp, {QpType::rc, QpType::uc, QpType::xrc_initiator});
    return ok ? impl_->connect(qp, parameters) : ok;
  });
}

Result<void> CmId::establish() const {
  return guarded([&] { return impl_ ? impl_->establish() : no_id(); });
}

Result<QueuePairAttributes> CmId::attributes(QpState state) const {
  return guarded([&]() -> Result<QueuePairAttributes> {
    if (!impl_) return no_id();
    if (state != QpState::init && state != QpState::rtr && state != QpState::rts)
      return Error{Code::invalid_argument, "attributes() are those of INIT, RTR or RTS, not of " +
                                               std::string(name(state))};
    return impl_->attributes(state);
  });
}

Result<void> CmId::find_service(std::span<const std::byte> private_data) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    if (impl_->service() != CmService::datagrams)
      return Error{Code::bad_state,
                   "find_service() needs an id for datagrams: "
                   "CmChannel::create_id(CmService::datagrams)"};
    return impl_->find_service(private_data);
  });
}

Result<void> CmId::accept(const QueuePair& qp, const CmParameters& parameters) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    const bool serves = impl_->service() == CmService::datagrams;
    const Result<void> ok =
        serves ? check_server(*this, qp) : check_connected(*this, qp, parameters);
    return ok ? impl_->accept(qp, parameters) : ok;
  });
}

Result<void> CmId::accept(const CmQueuePair& qp, const CmParameters& parameters) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    const bool serves = impl_->service() == CmService::datagrams;
    if (!serves) {
      if (const Result<void> ok = check_parameters(*this, parameters); !ok) return ok;
    }
    const Result<void> ok = serves ? check_own(qp, {QpType::ud})
                                   : check_own(qp, {QpType::rc, QpType::uc, QpType::xrc_target});
    return ok ? impl_->accept(qp, parameters) : ok;
  });
}

Result<void> CmId::reject(std::span<const std::byte> private_data) const {
  return guarded([&] { return impl_ ? impl_->reject(private_data) : no_id(); });
}
Result<void> CmId::disconnect() const {
  return guarded([&] { return impl_ ? impl_->disconnect() : no_id(); });
}

Result<void> CmId::migrate(const CmChannel& to) const {
  return guarded([&]() -> Result<void> {
    if (!impl_) return no_id();
    if (!to) return Error{Code::invalid_argument, "migrate() needs a channel: CmChannel::create()"};
    return impl_->migrate(to.impl());
  });
}

uint16_t CmId::port() const noexcept { return impl_ ? impl_->facts().port : uint16_t{0}; }
Gid CmId::peer_gid() const noexcept { return impl_ ? impl_->facts().peer : Gid{}; }
uint16_t CmId::peer_port() const noexcept { return impl_ ? impl_->facts().peer_port : uint16_t{0}; }
QpNum CmId::peer_qpn() const noexcept { return impl_ ? impl_->facts().peer_qpn : QpNum{}; }
uint32_t CmId::path_mtu() const noexcept { return impl_ ? impl_->facts().path_mtu : 0; }
QueuePair CmId::qp() const { return impl_ ? impl_->facts().qp : QueuePair{}; }

Result<CmChannel> CmChannel::create(const Device& device) {
  return guarded([&]() -> Result<CmChannel> {
    Result<std::shared_ptr<verbs::CmChannel>> made = device.context()->create_cm_channel(device);
    if (!made) return made.error();
    CmChannel channel;
    channel.impl_ = std::move(*made);
    return channel;
  });
}

Result<CmId> CmChannel::create_id(CmService service) const {
  return guarded([&]() -> Result<CmId> {
    if (!impl_) return Error{Code::bad_state, "this CmChannel is empty: create() makes one"};
    Result<std::shared_ptr<verbs::CmId>> made = impl_->create_id(service);
    if (!made) return made.error();
    return CmId(std::move(*made));
  });
}

int CmChannel::fd() const noexcept { return impl_ ? impl_->fd() : -1; }
std::optional<CmEvent> CmChannel::next() const {
  return guarded([&] { return impl_ ? impl_->next() : std::nullopt; });
}
std::optional<CmEvent> CmChannel::wait(Duration limit) const {
  return guarded([&] { return impl_ ? impl_->wait(limit) : std::nullopt; });
}

}  // namespace weft
