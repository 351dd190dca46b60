// SPDX-License-Identifier: BSD-3-Clause
// Creation of queue pairs, and their walk through the states.
#include "providers/ibverbs/queue/qp.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/kernel/socket.hpp"
#include "lib/base/membership.hpp"
#include "lib/base/queue_sizes.hpp"
#include "lib/transport/qp_attributes.hpp"
#include "providers/ibverbs/queue/cq.hpp"
#include "providers/ibverbs/queue/extended.hpp"
#include "providers/ibverbs/queue/srq.hpp"
#include "providers/ibverbs/queue/translate.hpp"
#include "providers/ibverbs/queue/xrc.hpp"

namespace weft::ibverbs {

namespace {

Cq& receives_of(const QueuePairOptions& options) {
  return static_cast<Cq&>(*options.recv_cq.impl());
}

// What is passed to the device, and which of it.
struct Change {
  ibv_qp_attr attributes{};
  int mask = 0;

  template <class T, class U>
  void set(T& field, const std::optional<U>& value, int bit) {
    if (!value) return;
    field = static_cast<T>(*value);
    mask |= bit;
  }
};

Change change_of(const QueuePairAttributes& c, const PortChoice& choice) {
  Change change;
  ibv_qp_attr& a = change.attributes;
  if (c.state) {
    a.qp_state = to_verbs(*c.state);
    change.mask |= IBV_QP_STATE;
  }
  if (c.current_state) {
    a.cur_qp_state = to_verbs(*c.current_state);
    change.mask |= IBV_QP_CUR_STATE;
  }
  if (c.port) {  // weft exposes one port per device, as port 1
    a.port_num = choice.port;
    change.mask |= IBV_QP_PORT;
  }
  if (c.access) {
    a.qp_access_flags = to_verbs(*c.access);
    change.mask |= IBV_QP_ACCESS_FLAGS;
  }
  if (c.path) {
    a.ah_attr = to_verbs(*c.path, choice.port, choice.gid_index);
    change.mask |= IBV_QP_AV;
  }
  if (c.path_mtu) {
    a.path_mtu = mtu_to_verbs(*c.path_mtu);
    change.mask |= IBV_QP_PATH_MTU;
  }
  change.set(a.pkey_index, c.pkey_index, IBV_QP_PKEY_INDEX);
  change.set(a.qkey, c.qkey, IBV_QP_QKEY);
  if (c.dest_qpn) change.set(a.dest_qp_num, std::optional(c.dest_qpn->value), IBV_QP_DEST_QPN);
  if (c.rq_psn) change.set(a.rq_psn, std::optional(c.rq_psn->value), IBV_QP_RQ_PSN);
  if (c.sq_psn) change.set(a.sq_psn, std::optional(c.sq_psn->value), IBV_QP_SQ_PSN);
  change.set(a.max_dest_rd_atomic, c.max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC);
  change.set(a.max_rd_atomic, c.max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC);
  change.set(a.min_rnr_timer, c.min_rnr_timer, IBV_QP_MIN_RNR_TIMER);
  change.set(a.timeout, c.timeout, IBV_QP_TIMEOUT);
  change.set(a.retry_cnt, c.retry_count, IBV_QP_RETRY_CNT);
  a.retry_cnt = std::min(a.retry_cnt, choice.max_retry_count);  //= roce:C-RETRY-47
  change.set(a.rnr_retry, c.rnr_retry, IBV_QP_RNR_RETRY);
  change.set(a.en_sqd_async_notify, c.sq_drained_event, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  return change;
}

// The other way: what a connection manager has said.
QueuePairAttributes change_from(const ibv_qp_attr& a, int mask) {
  QueuePairAttributes c{.state = from_verbs(a.qp_state)};
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_AV))
    c.path = AddressVector{.destination = from_verbs(a.ah_attr.grh.dgid),
                           .flow_label = a.ah_attr.grh.flow_label,
                           .hop_limit = a.ah_attr.grh.hop_limit,
                           .traffic_class = a.ah_attr.grh.traffic_class};
  if (has(IBV_QP_PATH_MTU)) c.path_mtu = mtu_from_verbs(a.path_mtu);
  if (has(IBV_QP_DEST_QPN)) c.dest_qpn = QpNum{a.dest_qp_num};
  if (has(IBV_QP_RQ_PSN)) c.rq_psn = Psn{a.rq_psn};
  if (has(IBV_QP_SQ_PSN)) c.sq_psn = Psn{a.sq_psn};
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) c.max_dest_rd_atomic = a.max_dest_rd_atomic;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) c.max_rd_atomic = a.max_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) c.min_rnr_timer = a.min_rnr_timer;
  if (has(IBV_QP_TIMEOUT)) c.timeout = a.timeout;
  if (has(IBV_QP_RETRY_CNT)) c.retry_count = a.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) c.rnr_retry = a.rnr_retry;
  return c;
}

Result<void> check_xrc(const QueuePairOptions& options, const Context& context) {
  if (is_xrc(options.type) && !context.attributes().has_xrc)
    return Error{Code::not_supported, "device " + context.attributes().port +
                                          " has no XRC queue pairs (IBV_DEVICE_XRC): use RC, or a "
                                          "roce device"};
  if (is_xrc(options.type) && options.shared_receive_queue)
    return Error{Code::invalid_argument,
                 "an XRC queue pair has no shared receive queue of its own: its peer's requests "
                 "name one of the XRC domain"};
  const bool named = Xrc::raw_of(options.xrc_domain, context) != nullptr;
  if (named == (options.type == QpType::xrc_target) && named == bool(options.xrc_domain)) return {};
  return Error{Code::invalid_argument,
               "QueuePairOptions::xrc_domain is for queue pairs of type xrc_target, which need one "
               "of the same open device: Device::xrc_domain()"};
}

// A queue pair that is posted to by ibv_wr_*, if the device has them for all that such queue pairs
// do but local requests. Null if not: a plain one is made then, and
// says why there is none.
Owned<ibv_qp> make_extended(const Context& context, ibv_qp_init_attr_ex wanted,
                            ibv_qp_ex*& extended) {
  const Library& library = context.library();
  Owned<ibv_qp> qp = own<ibv_qp>(nullptr, library.destroy_qp);
  verbs_context* const calls = __extension__ verbs_get_ctx_op(context.raw(), create_qp_ex);
  if (calls == nullptr || library.qp_to_qp_ex == nullptr) return qp;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = operations_of(wanted.qp_type, context.attributes());
  qp.reset(calls->create_qp_ex(context.raw(), &wanted));
  if (qp != nullptr) extended = library.qp_to_qp_ex(qp.get());
  if (extended == nullptr) qp.reset();
  return qp;
}

Error refused(int error, const QueuePairAttributes& change, QpState from) {
  std::string what = "the device did not move the queue pair from " + std::string(name(from)) +
                     " to " + std::string(name(change.state.value_or(from)));
  if (change.path)
    what += "; is there a route to its peer " + to_string(change.path->destination) + "?";
  return error_of(error, what);
}

}  // namespace

Result<std::shared_ptr<verbs::Qp>> Qp::create(std::shared_ptr<Domain> domain,
                                              const QueuePairOptions& options) {
  const Context& context = domain->context();
  if (options.type == QpType::srd)  //= roce:C-OPS-93
    return Error{
        Code::not_supported,
        "provider ibverbs has RC, UC, UD and XRC queue pairs: set QueuePairOptions::type to "
        "one of them, or open an srd device"};
  if ((options.type == QpType::uc && !context.attributes().has_uc) ||
      (options.type == QpType::ud && !context.attributes().has_ud))
    return Error{Code::not_supported,
                 "device " + context.attributes().port + " has no " +
                     std::string(name(options.type)) +
                     " queue pairs (DeviceAttributes::has_uc, has_ud): use RC"};
  if (!options.congestion.empty())
    return Error{
        Code::not_supported,
        "QueuePairOptions::congestion: a device of provider ibverbs paces by itself; leave "
        "it empty"};
  if (const Result<void> ok = base::check_queue_sizes(options, context.attributes()); !ok)
    return ok.error();
  if (const Result<void> ok = check_xrc(options, context); !ok) return ok.error();
  const Library& library = context.library();
  if (options.type == QpType::xrc_target) {
    Owned<ibv_qp> target =
        own(create_xrc_target(context.raw(), Xrc::raw_of(options.xrc_domain, context)),
            library.destroy_qp);
    if (target == nullptr) return error_of(errno, "no XRC target");
    return std::shared_ptr<verbs::Qp>(
        new Qp(std::move(domain), options, std::move(target), nullptr));
  }
  const bool initiator = options.type == QpType::xrc_initiator;
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = Cq::raw_of(options.send_cq, context);
  wanted.recv_cq = initiator ? nullptr : Cq::raw_of(options.recv_cq, context);
  const bool other_context = initiator && options.recv_cq.impl() != nullptr &&
                             Cq::raw_of(options.recv_cq, context) == nullptr;
  if (wanted.send_cq == nullptr || (wanted.recv_cq == nullptr && !initiator) || other_context)
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq must be completion queues of the same open device"};
  if (options.shared_receive_queue) {
    const auto* const srq = dynamic_cast<Srq*>(options.shared_receive_queue.impl().get());
    if (srq == nullptr || &srq->domain() != domain.get() || srq->is_xrc())
      return Error{
          Code::invalid_argument,
          "shared_receive_queue must be of the same protection domain as the queue pair, and "
          "of no XRC domain"};
    wanted.srq = srq->raw();
  }
  wanted.qp_type = to_verbs(options.type);
  wanted.sq_sig_all = options.signal_all ? 1 : 0;
  wanted.cap.max_send_wr = options.max_send_wr;
  wanted.cap.max_recv_wr = initiator ? 0 : std::max(1u, options.max_recv_wr);
  wanted.cap.max_send_sge = std::max(1u, options.max_send_sge);
  wanted.cap.max_recv_sge = initiator ? 0 : std::max(1u, options.max_recv_sge);
  wanted.cap.max_inline_data = options.max_inline;
  wanted.pd = domain->raw();
  ibv_qp_ex* extended = nullptr;
  Owned<ibv_qp> qp = make_extended(context, wanted, extended);
  if (qp == nullptr)  // the head of `wanted` is a plain one
    qp = own(library.create_qp(domain->raw(), reinterpret_cast<ibv_qp_init_attr*>(&wanted)),
             library.destroy_qp);
  if (qp == nullptr)
    return error_of(errno, "no " + std::string(name(options.type)) + " queue pair");
  const std::shared_ptr<Qp> made(new Qp(std::move(domain), options, std::move(qp), extended));
  if (context.attributes().only_by_cm) made->keep_ledger(made);
  return std::shared_ptr<verbs::Qp>(made);
}

Qp::Qp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<ibv_qp> qp,
       ibv_qp_ex* extended)
    : DeviceQp(std::move(domain), options, std::move(qp)),
      extended_(extended),
      send_limits_{options_.max_send_sge, options_.max_inline, context().attributes().max_message},
      receive_limits_{options_.max_recv_sge, 0, context().attributes().max_message},
      receives_plainly_(!is_xrc(options_.type) && !options_.shared_receive_queue &&
                        !context().attributes().only_by_cm) {
  plain_[0].longest =
      static_cast<uint32_t>(std::min<uint64_t>(send_limits_.max_message, UINT32_MAX));
  plain_[1].longest = send_limits_.max_inline;
  set_max_rd_atomic(0);
  if (options_.type == QpType::ud) receives_of(options_).note_datagrams(number());
}

Qp::~Qp() {
  if (!context().forked())  // a device keeps a queue pair that is in a group
    while (!groups_.empty()) (void)detach_multicast(groups_.begin()->first);
  if (options_.type == QpType::ud) receives_of(options_).forget_datagrams(number());
  if (ledger_ != nullptr && !context().forked()) leave_queues();
}

// iWARP: the states of the kernel's queue pair are others, and siw 6.1 says none at all.
QpState Qp::state() const noexcept {
  if (!context().attributes().only_by_cm || context().forked()) return DeviceQp::state();
  return reached_.load(std::memory_order_relaxed);
}

Result<void> Qp::modify(const QueuePairAttributes& change) { return apply(change, nullptr); }

Result<void> Qp::follow(const ibv_qp_attr& said, int mask) {
  return apply(change_from(said, mask), (mask & IBV_QP_AV) != 0 ? &said.ah_attr : nullptr);
}

void Qp::note_connected(uint8_t max_rd_atomic) {
  set_max_rd_atomic(max_rd_atomic);
  QpState before = QpState::init;  // it may have ended already
  reached_.compare_exchange_strong(before, QpState::rts);
}

// In units of 1,000 bits per second; a limit below one is one.
Result<void> Qp::set_rate_limit(const RateLimit& limit) {
  const int64_t kbps = (limit.rate.bits_per_second + 999) / 1000;
  ibv_qp_rate_limit_attr attributes{};
  attributes.rate_limit = static_cast<uint32_t>(std::min<int64_t>(kbps, UINT32_MAX));
  attributes.max_burst_sz = limit.max_burst;
  const int error = ibv_modify_qp_rate_limit(qp_.get(), &attributes);
  if (error == 0) return {};
  return error_of(error, "the device took no rate limit of " + std::to_string(kbps) + " kb/s");
}

// `way`: the path as the connection manager has it, which may use another address of the port.
Result<void> Qp::apply(const QueuePairAttributes& change, const ibv_ah_attr* cm_path) {
  if (context().forked()) return Error{Code::permission_denied, kForked};
  const std::lock_guard lock(mutex_);
  const DeviceAttributes& device = context().attributes();
  if (device.only_by_cm && (change.state == QpState::rtr || change.state == QpState::rts))
    return Error{Code::not_supported,
                 "device " + device.port +
                     " is iWARP, whose queue pairs a connection manager connects, not modify() or "
                     "connect(): use weft/cm.hpp (-R of the weft_* programs)"};
  const QpState from = state();
  if (device.only_by_cm &&
      (change.state == QpState::sqd || (change.state == QpState::reset && from >= QpState::rtr)))
    return Error{Code::not_supported,
                 "device " + device.port +
                     " is iWARP, whose queue pairs have no SQD and are of one connection: make a "
                     "new one instead of a RESET"};
  const Result<void> legal =
      transport::check_modify(options_.type, from, change, {device.max_mtu, device.max_rd_atomic});
  if (!legal) return legal;
  Change translated = change_of(change, context().choice());
  if (cm_path != nullptr) translated.attributes.ah_attr = *cm_path;
  if (options_.type == QpType::xrc_target && from == QpState::rtr && change.state == QpState::rts) {
    translated.attributes.timeout = 14;  // required by the kernel, though a target has no time-out
    translated.mask |= IBV_QP_TIMEOUT;
  }
  const bool only_rate = change.rate_limit && translated.mask == 0;
  const int error =
      only_rate ? 0
                : context().library().modify_qp(qp_.get(), &translated.attributes, translated.mask);
  if (error != 0) return refused(error, change, from);
  if (change.rate_limit)
    if (const Result<void> ok = set_rate_limit(*change.rate_limit); !ok) return ok;
  if (change.state == QpState::reset) attributes_ = {};
  transport::merge(attributes_, change);
  set_max_rd_atomic(attributes_.max_rd_atomic.value_or(0));
  reached_ = change.state.value_or(from);
  if (ledger_ != nullptr && change.state == QpState::err) flush_outstanding();
  return {};
}

// The device takes frames of the group from its interface; the kernel lets them come that far, and
// switches send them, only if an IP socket has joined too, which rdma_cm would do.
Result<void> Qp::attach_multicast(const Gid& group) {
  if (context().forked()) return Error{Code::permission_denied, kForked};
  const std::lock_guard lock(mutex_);
  if (groups_.count(group) != 0) return {};
  const int socket =
      base::kernel_socket(group.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC);
  const uint32_t interface = base::interface_of(context().attributes().gid);
  int error = 0;
  if (socket < 0 || !base::change_membership(socket, interface, group, true)) {
    error = errno;
  } else {
    const ibv_gid gid = to_verbs(group);
    error = context().library().attach_mcast(qp_.get(), &gid, 0);
  }
  if (error == 0) {
    groups_[group] = socket;
    return {};
  }
  if (socket >= 0) ::close(socket);
  return error_of(error, "joining the multicast group " + to_string(group));
}

Result<void> Qp::detach_multicast(const Gid& group) {
  if (context().forked()) return Error{Code::permission_denied, kForked};
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end())
    return Error{Code::not_found,
                 "the queue pair is not attached to the group " + to_string(group)};
  const ibv_gid gid = to_verbs(group);
  const int error = context().library().detach_mcast(qp_.get(), &gid, 0);
  ::close(found->second);
  groups_.erase(found);
  if (error != 0) return error_of(error, "leaving the multicast group " + to_string(group));
  return {};
}

}  // namespace weft::ibverbs
