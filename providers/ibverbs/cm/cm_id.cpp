// SPDX-License-Identifier: BSD-3-Clause
// One connection over librdmacm: the calls of the application, and the transitions of its queue
// pair with attributes from the kernel. On iWARP the device makes them. Events: cm_events.cpp.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/membership.hpp"
#include "lib/base/socket_gid.hpp"
#include "providers/ibverbs/cm/cm_channel.hpp"
#include "providers/ibverbs/queue/qp.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

constexpr int kResolveMs = 3000;
constexpr int kBacklog = 512;
constexpr size_t kRequestData = 56, kAcceptData = 196, kRejectData = 148;
constexpr size_t kFindData = 180, kReplyData = 136;

Error too_long(const char* call, size_t most) {
  return {Code::invalid_argument, std::string("the private data of ") + call + " has at most " +
                                      std::to_string(most) + " bytes"};
}

Error connection_ended_error() {
  return {Code::bad_state, "the connection has ended: its event says why"};
}

}  // namespace

CmId::CmId(std::shared_ptr<CmChannel> channel, CmService service, rdma_cm_id* id)
    : channel_(std::move(channel)), service_(service), id_(id) {
  id_->context = this;
}

// What is open ends by rdma_destroy_id(): a request is refused, a connection disconnected.
CmId::~CmId() {
  if (channel_->context().forked()) return;
  if (phase_ == Phase::accepted && facts_.qp) (void)facts_.qp.modify({.state = QpState::err});
  channel_->library().destroy_id(id_);
}

const Device& CmId::device() const noexcept { return channel_->device(); }

verbs::CmId::Facts CmId::facts() const {
  const std::lock_guard hold(mutex_);
  return facts_;
}

Result<void> CmId::require_phase(Phase phase, const char* call, const char* instead) const {
  if (channel_->context().forked()) return Error{Code::permission_denied, kForked};
  if (phase_ == phase) return {};
  return Error{Code::bad_state, std::string(call) + " needs " + instead};
}

Result<void> CmId::resolve_address(const Gid& peer, uint16_t port) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::idle, "resolve_address()", "a new CmId"); !ok)
    return ok;
  const Gid& own = device().attributes().gid;
  const uint32_t scope = own.is_ipv4() ? 0 : base::interface_of(own);
  sockaddr_storage from = base::socket_address(own, 0, scope);
  sockaddr_storage to = base::socket_address(peer, port, scope);
  if (channel_->library().resolve_addr(id_, reinterpret_cast<sockaddr*>(&from),
                                       reinterpret_cast<sockaddr*>(&to), kResolveMs) != 0)
    return error_of(errno, "no way from " + to_string(own) + " to " + to_string(peer));
  facts_.peer = peer;
  facts_.peer_port = port;
  phase_ = Phase::resolving;
  return {};
}

Result<void> CmId::resolve_route() {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::resolved, "resolve_route()", "resolve_address() before");
      !ok)
    return ok;
  if (channel_->library().resolve_route(id_, kResolveMs) != 0)
    return error_of(errno, "no route to " + to_string(facts_.peer));
  phase_ = Phase::routing;
  return {};
}

// Several devices may have the address, two that software makes of one interface say.
Result<void> CmId::check_device() const {
  const char* const ours = channel_->context().raw()->device->name;
  if (id_->verbs == nullptr || std::strcmp(id_->verbs->device->name, ours) == 0) return {};
  return Error{Code::not_supported,
               "the kernel's connection manager takes " + to_string(device().attributes().gid) +
                   " for an address of " + id_->verbs->device->name + ", not of " + ours +
                   ": give each device an address of its own"};
}

Result<void> CmId::listen(uint16_t port) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::idle, "listen()", "a new CmId"); !ok) return ok;
  const CmLibrary& library = channel_->library();
  const Gid& own = device().attributes().gid;
  sockaddr_storage at =
      base::socket_address(own, port, own.is_ipv4() ? 0 : base::interface_of(own));
  const auto refused = [port](int why) -> Result<void> {
    if (why == EADDRINUSE) return Error{Code::address_in_use, "another listener has that port"};
    return error_of(why, "cannot listen on port " + std::to_string(port));
  };
  if (library.bind_addr(id_, reinterpret_cast<sockaddr*>(&at)) != 0) return refused(errno);
  if (const Result<void> ok = check_device(); !ok) return ok;
  if (library.listen(id_, kBacklog) != 0) return refused(errno);
  facts_.port = ntohs(library.get_src_port(id_));
  phase_ = Phase::listening;
  return {};
}

rdma_conn_param CmId::parameters(const CmParameters& wanted) const {
  rdma_conn_param p{};
  p.private_data = wanted.private_data.data();
  p.private_data_len = static_cast<uint8_t>(wanted.private_data.size());
  p.responder_resources = wanted.responder_resources;
  p.initiator_depth = wanted.initiator_depth;
  p.flow_control = 1;
  p.retry_count = wanted.retry_count;
  p.rnr_retry_count = wanted.rnr_retry;
  p.qp_num = facts_.qp ? facts_.qp.number().value : 0;
  return p;
}

Result<void> CmId::prepare(const QueuePair& qp) {
  if (qp.type() != QpType::rc)
    return Error{Code::not_supported,
                 "the kernel's connection manager connects RC queue pairs only, this one is " +
                     std::string(name(qp.type())) + ": use connect() of weft/connect.hpp"};
  if (own_parameters_.rq_psn)
    return Error{Code::not_supported,
                 "CmParameters::rq_psn: the kernel's connection manager chooses the first PSN; "
                 "leave it unset"};
  facts_.qp = qp;
  const uint32_t limit = device().attributes().max_rd_atomic;
  own_parameters_.responder_resources =
      static_cast<uint8_t>(std::min<uint32_t>(own_parameters_.responder_resources, limit));
  own_parameters_.initiator_depth =
      static_cast<uint8_t>(std::min<uint32_t>(own_parameters_.initiator_depth, limit));
  if (qp.state() != QpState::reset) return {};
  return qp.modify({.state = QpState::init,
                    .pkey_index = uint16_t{0},
                    .port = uint8_t{1},
                    .access = own_parameters_.access});
}

Result<void> CmId::connect(const QueuePair& qp, const CmParameters& wanted) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok = require_phase(Phase::routed, "connect()", "resolve_route() before");
      !ok)
    return ok;
  if (wanted.private_data.size() > kRequestData) return too_long("connect()", kRequestData);
  const uint32_t mtu = id_->route.num_paths > 0
                           ? mtu_from_verbs(static_cast<ibv_mtu>(id_->route.path_rec->mtu & 0x3F))
                           : device().attributes().active_mtu;
  if (wanted.path_mtu != 0 && wanted.path_mtu != mtu)
    return Error{wanted.path_mtu % 256 != 0 ? Code::invalid_argument : Code::not_supported,
                 "path_mtu " + std::to_string(wanted.path_mtu) +
                     ": the kernel's connection manager takes that of the route, " +
                     std::to_string(mtu) + "; leave it 0"};
  const CmLibrary& library = channel_->library();
  own_parameters_ = wanted;
  if (const Result<void> ok = prepare(qp); !ok) return ok;
  // Kernels before 5.1 do not take the first: then they choose, and our own side keeps to ours.
  (void)library.set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                           &own_parameters_.timeout, 1);
  if (own_parameters_.traffic_class != 0)
    (void)library.set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS,
                             &own_parameters_.traffic_class, 1);
  rdma_conn_param requested = parameters(own_parameters_);
  int error = library.connect(id_, &requested) != 0 ? errno : 0;
  // iWARP: TCP also says so of a connection before from the same port that is not all closed at the
  // peer, and with that it is.
  if (error == ECONNREFUSED && device().attributes().only_by_cm)
    error = library.connect(id_, &requested) != 0 ? errno : 0;
  if (error != 0) {
    if (error == ECONNREFUSED)
      return Error{Code::disconnected,
                   to_string(facts_.peer) + ": " + verbs::describe_rejection(kCmNoListener)};
    return error_of(error, "cannot ask " + to_string(facts_.peer) + " for a connection");
  }
  facts_.path_mtu = mtu;
  facts_.port = ntohs(library.get_src_port(id_));
  phase_ = Phase::request_sent;
  return {};
}

Result<void> CmId::find_service(std::span<const std::byte> private_data) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::routed, "find_service()", "resolve_route() before");
      !ok)
    return ok;
  if (private_data.size() > kFindData) return too_long("find_service()", kFindData);
  rdma_conn_param requested{};
  requested.private_data = private_data.data();
  requested.private_data_len = static_cast<uint8_t>(private_data.size());
  if (channel_->library().connect(id_, &requested) != 0)
    return error_of(errno, "cannot ask " + to_string(facts_.peer) + " for a service");
  facts_.port = ntohs(channel_->library().get_src_port(id_));
  phase_ = Phase::request_sent;
  return {};
}

// Moves the queue pair to RTS with the attributes that the kernel returns: both PSNs, the path, its
// timeout. iWARP: the kernel has moved it, which is recorded here.
Result<void> CmId::move_to_rts() {
  auto& qp = static_cast<Qp&>(*facts_.qp.impl());
  if (device().attributes().only_by_cm) {
    qp.note_connected(own_parameters_.initiator_depth);
    return {};
  }
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr said{};
    said.qp_state = state;
    int mask = 0;
    if (channel_->library().init_qp_attr(id_, &said, &mask) != 0) return connection_ended_error();
    if (state == IBV_QPS_RTR) facts_.path_mtu = mtu_from_verbs(said.path_mtu);
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
      said.max_dest_rd_atomic = own_parameters_.responder_resources;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) said.max_rd_atomic = own_parameters_.initiator_depth;
    if (mask & IBV_QP_MIN_RNR_TIMER) said.min_rnr_timer = own_parameters_.min_rnr_timer;
    if (const Result<void> ok = qp.follow(said, mask); !ok) return ok;
  }
  return {};
}

Result<void> CmId::accept_datagrams(const QueuePair& qp, const CmParameters& wanted) {
  if (wanted.private_data.size() > kReplyData) return too_long("accept()", kReplyData);
  const uint32_t qkey = qp.query().qkey.value_or(0);
  if (qkey != kCmQkey)
    return Error{Code::not_supported,
                 "the kernel's connection manager tells every client of datagrams the Q_Key "
                 "kCmQkey (0x01234567): give the queue pair that one"};
  facts_.qp = qp;
  rdma_conn_param answer = parameters(wanted);
  if (channel_->library().accept(id_, &answer) != 0)
    return error_of(errno, "cannot answer " + to_string(facts_.peer));
  phase_ = Phase::closed;
  return {};
}

Result<void> CmId::accept(const QueuePair& qp, const CmParameters& wanted) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::request_received, "accept()", "the id of a connect_request");
      !ok)
    return ok;
  if (service_ == CmService::datagrams) return accept_datagrams(qp, wanted);
  if (wanted.private_data.size() > kAcceptData) return too_long("accept()", kAcceptData);
  own_parameters_ = wanted;
  own_parameters_.responder_resources =
      std::min(own_parameters_.responder_resources, peer_parameters_.initiator_depth);
  own_parameters_.initiator_depth =
      std::min(own_parameters_.initiator_depth, peer_parameters_.responder_resources);
  if (const Result<void> ok = prepare(qp); !ok) return ok;
  const bool cm_moves_qp = device().attributes().only_by_cm;
  Result<void> done = cm_moves_qp ? Result<void>{} : move_to_rts();
  rdma_conn_param answer = parameters(own_parameters_);
  if (done && channel_->library().accept(id_, &answer) != 0) done = connection_ended_error();
  if (done && cm_moves_qp) done = move_to_rts();  // rdma_accept() has moved it: recorded here
  if (done)
    phase_ = Phase::accepted;
  else if (qp.state() != QpState::reset)
    (void)qp.modify({.state = QpState::err});
  return done;
}

Result<void> CmId::reject(std::span<const std::byte> private_data) {
  const std::lock_guard hold(mutex_);
  if (const Result<void> ok =
          require_phase(Phase::request_received, "reject()", "the id of a connect_request");
      !ok)
    return ok;
  const size_t most = service_ == CmService::datagrams ? kReplyData : kRejectData;
  if (private_data.size() > most) return too_long("reject()", most);
  if (channel_->library().reject(id_, private_data.data(),
                                 static_cast<uint8_t>(private_data.size())) != 0)
    return connection_ended_error();
  phase_ = Phase::closed;
  return {};
}

Result<void> CmId::disconnect() {
  const std::lock_guard hold(mutex_);
  if (channel_->context().forked()) return Error{Code::permission_denied, kForked};
  if (phase_ == Phase::closed) return {};
  if (phase_ != Phase::accepted)
    return Error{Code::bad_state, "disconnect() needs a connection that is established"};
  (void)facts_.qp.modify({.state = QpState::err});
  (void)channel_->library().disconnect(id_);  // fails if the peer was first: its event comes
  return {};
}

}  // namespace weft::ibverbs
