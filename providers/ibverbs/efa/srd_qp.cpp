// SPDX-License-Identifier: BSD-3-Clause
// See srd_qp.hpp.
#include "providers/ibverbs/efa/srd_qp.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/queue_sizes.hpp"
#include "lib/transport/srd_qp_states.hpp"
#include "providers/ibverbs/queue/extended.hpp"
#include "providers/ibverbs/queue/translate.hpp"

namespace weft::ibverbs {

namespace {

// Programs of `srd` name no Q_Key, and an EFA wants one: theirs is this, unless modify() says
// another.
constexpr uint32_t kQKey = 0x57656674;
constexpr const char* kFull = "the send queue is full: poll completions, or raise max_send_wr";
constexpr const char* kReceivesFull =
    "the receive queue is full: poll completions, or raise max_recv_wr";

// The sizes that are asked for, no more entries and inline data than the device has: a program that
// says nothing of them asks for more, and a request that needs more is refused when it is posted.
QueuePairOptions fitting(QueuePairOptions o, const SrdLimits& device) {
  o.max_send_sge = std::clamp(o.max_send_sge, 1u, device.max_send_sge);
  o.max_recv_sge = std::clamp(o.max_recv_sge, 1u, device.max_recv_sge);
  o.max_inline = std::min(o.max_inline, device.max_inline);
  return o;
}

Result<void> check(const QueuePairOptions& o, const DeviceAttributes& device) {
  if (o.type != QpType::srd)
    return Error{Code::not_supported, "device " + device.spec +
                                          " has SRD queue pairs only: set QueuePairOptions::type "
                                          "to QpType::srd"};
  if (!o.congestion.empty())
    return Error{Code::not_supported,
                 "QueuePairOptions::congestion: a device of provider ibverbs paces by itself; "
                 "leave it empty"};
  if (o.shared_receive_queue)
    return Error{Code::not_supported,
                 "SRD has no shared receive queues: one queue pair receives from all peers"};
  return {};
}

}  // namespace

Result<std::shared_ptr<verbs::Qp>> SrdQp::create(std::shared_ptr<Domain> domain,
                                                 const QueuePairOptions& asked) {
  const Context& context = domain->context();
  const EfaSrd& srd = *context.srd();
  if (const Result<void> ok = check(asked, context.attributes()); !ok) return ok.error();
  const QueuePairOptions options = fitting(asked, srd.limits);
  // What is left of the sizes.
  QueuePairOptions counts = options;
  counts.max_send_sge = counts.max_recv_sge = 1;
  if (const Result<void> ok = base::check_queue_sizes(counts, context.attributes()); !ok)
    return ok.error();
  SrdCq* const send = SrdCq::of(options.send_cq, context);
  SrdCq* const receive = SrdCq::of(options.recv_cq, context);
  if (send == nullptr || receive == nullptr)
    return Error{Code::invalid_argument,
                 "send_cq and recv_cq must be completion queues of the same open device"};
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = send->raw();
  wanted.recv_cq = receive->raw();
  wanted.cap = {options.max_send_wr, std::max(1u, options.max_recv_wr), options.max_send_sge,
                options.max_recv_sge, options.max_inline};
  wanted.qp_type = IBV_QPT_DRIVER;
  wanted.sq_sig_all = 1;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = domain->raw();
  wanted.send_ops_flags = send_operations(srd.limits.caps);
  efadv_qp_init_attr own_part{};
  own_part.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
  const Library& library = context.library();
  Owned<ibv_qp> qp = own(srd.efa.create_qp_ex(context.raw(), &wanted, &own_part, sizeof own_part),
                         library.destroy_qp);
  if (qp == nullptr) return error_of(errno, "no SRD queue pair");
  ibv_qp_ex* const extended =
      library.qp_to_qp_ex != nullptr ? library.qp_to_qp_ex(qp.get()) : nullptr;
  if (extended == nullptr)
    return Error{Code::not_supported,
                 "libibverbs has no ibv_qp_to_qp_ex, by which SRD is posted: it needs rdma-core 23 "
                 "or newer"};
  return std::shared_ptr<verbs::Qp>(new SrdQp(std::move(domain), options, std::move(qp), extended));
}

SrdQp::SrdQp(std::shared_ptr<Domain> domain, const QueuePairOptions& options, Owned<ibv_qp> qp,
             ibv_qp_ex* extended)
    : DeviceQp(std::move(domain), options, std::move(qp)),
      extended_(extended),
      qkey_(kQKey),
      sends_(options.max_send_wr),
      receives_(std::max(1u, options.max_recv_wr)) {
  SrdCq::of(options_.send_cq, context())->enter(*this);
  SrdCq::of(options_.recv_cq, context())->enter(*this);
}

SrdQp::~SrdQp() {
  SrdCq::of(options_.send_cq, context())->leave(*this);
  SrdCq::of(options_.recv_cq, context())->leave(*this);
}

Result<void> SrdQp::modify(const QueuePairAttributes& change) {
  if (context().forked()) return Error{Code::permission_denied, kForked};
  const std::lock_guard lock(mutex_);
  const QpState from = state();
  if (const Result<void> ok =
          transport::check_srd_transition(from, change, context().attributes().max_mtu);
      !ok)
    return ok;
  const QpState to = change.state.value_or(from);
  const bool late = from != QpState::reset && from != QpState::init && from != QpState::rtr;
  if (change.rnr_retry && late && to != QpState::reset)
    return Error{Code::not_supported,
                 "rnr_retry of an EFA's queue pair is set on the way to RTS, not later"};
  if (change.rnr_retry.value_or(7) != 7 && !efa_srd().limits.has(kEfaRnrRetry))
    return Error{Code::not_supported,
                 "the device counts no RNR retries, it tries for ever: leave rnr_retry out, or 7"};
  QueuePairAttributes merged = attributes_;
  transport::merge(merged, change);
  if (const Result<void> ok = step(from, to, merged); !ok) return ok;
  attributes_ = to == QpState::reset ? QueuePairAttributes{} : merged;
  if (to == QpState::reset) {
    ++resets_;
    sends_.clear();
    receives_.clear();
    qkey_ = kQKey;
  } else if (change.qkey) {
    qkey_ = *change.qkey;
  }
  reached_ = to;
  return {};
}

// The device's step, with what it needs of all that was said so far.
Result<void> SrdQp::step(QpState from, QpState to, const QueuePairAttributes& said) {
  ibv_qp_attr a{};
  int mask = IBV_QP_STATE;
  a.qp_state = to_verbs(to);
  a.qkey = said.qkey.value_or(kQKey);
  if (from == QpState::reset && to == QpState::init) {
    a.port_num = context().choice().port;
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  } else if (from == QpState::rtr && to == QpState::rts) {
    a.sq_psn = said.sq_psn.value_or(Psn{}).value;
    mask |= IBV_QP_SQ_PSN;
    if (said.rnr_retry && efa_srd().limits.has(kEfaRnrRetry)) {
      a.rnr_retry = *said.rnr_retry;
      mask |= IBV_QP_RNR_RETRY;
    }
  } else if (from == to && (from == QpState::init || from == QpState::rts)) {
    mask |= IBV_QP_QKEY;
  } else if (from == to) {
    return {};
  }
  const int error = context().library().modify_qp(qp_.get(), &a, mask);
  if (error == 0) return {};
  return error_of(error, "the device did not move the queue pair from " + std::string(name(from)) +
                             " to " + std::string(name(to)));
}

std::optional<SrdSlots::Entry> SrdQp::finish(const SrdWorkId& id) noexcept {
  const std::lock_guard lock(mutex_);
  if (id.resets != (resets_ & 0x7FFFFFFF)) return std::nullopt;
  return (id.is_send ? sends_ : receives_).finish(id.slot);
}

uint32_t SrdQp::peer_of_handle(uint16_t handle) const noexcept {
  const std::optional<Gid> address = domain_->address_of_handle(handle);
  return address ? efa_srd().peers.number_of(*address) : SrdPeers::kUnknown;
}

uint32_t SrdQp::add_peer(const Gid& address) const noexcept {
  domain_->add_peer(address);
  return efa_srd().peers.number_of(address);
}

const char* SrdQp::invalid_reason(const SendRequest& r, uint32_t& length) const noexcept {
  const transport::RequestLimits limits{options_.max_send_sge, options_.max_inline, UINT32_MAX};
  if (const char* const reason = srd_invalid_reason(r, efa_srd().limits, limits, length))
    return reason;
  if (r.to == nullptr && !(attributes_.path && attributes_.dest_qpn))
    return "no destination: set SendRequest::to and remote_qpn";
  return nullptr;
}

PostStatus SrdQp::prepare(const SendRequest& r, Prepared& p) noexcept {
  uint32_t length = 0;
  if (const char* const reason = invalid_reason(r, length))
    return {Code::invalid_argument, 0, reason};
  const AddressVector& path = r.to != nullptr ? r.to->path() : *attributes_.path;
  // An EFA knows addresses and nothing else of a path: one handle for each.
  p.to.handle = domain_->address_handle({.destination = path.destination});
  if (p.to.handle == nullptr)
    return {Code::invalid_argument, 0,
            "the device made no handle of the address of SendRequest::to, or has no more"};
  p.to.qpn = r.to != nullptr ? r.remote_qpn.value : attributes_.dest_qpn->value;
  p.to.qkey = r.remote_qkey != 0 ? r.remote_qkey : qkey_;
  const bool signaled = options_.signal_all || has(r.flags, SendFlags::signaled);
  const std::optional<uint32_t> slot =
      sends_.take({r.id, length, transport::work_type(r.opcode), signaled});
  if (!slot) return {Code::queue_full, 0, kFull};
  p.slot = *slot;
  p.request = &r;
  return {};
}

int SrdQp::submit(std::span<const Prepared> batch) noexcept {
  ibv_wr_start(extended_);
  for (const Prepared& p : batch)
    issue(*extended_, *p.request, p.to, SrdWorkId{true, p.slot, resets_}.pack());
  return ibv_wr_complete(extended_);
}

PostStatus SrdQp::post_batch(std::span<const SendRequest> requests) noexcept {
  std::array<Prepared, kPostBatch> batch;
  PostStatus status;
  size_t n = 0;
  while (status && n < std::min(requests.size(), batch.size())) {
    status = prepare(requests[n], batch[n]);
    if (status) ++n;
  }
  const std::span<const Prepared> ready(batch.data(), n);
  size_t accepted = 0;
  const int error = n == 0 ? 0 : submit_batch(n, accepted, [&](size_t first, size_t count) {
    return submit(ready.subspan(first, count));
  });
  for (size_t left = accepted; left < n; ++left) sends_.release_slot(batch[left].slot);
  status.accepted = static_cast<uint32_t>(accepted);
  if (error != 0) refuse(status, error, kFull);
  return status;
}

PostStatus SrdQp::post_send(std::span<const SendRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  const std::lock_guard lock(mutex_);
  if (reached_ == QpState::err)
    return flush_all(requests, number(), *SrdCq::of(options_.send_cq, context()),
                     [this](const SendRequest& r) {
                       uint32_t length = 0;
                       return invalid_reason(r, length);
                     });
  if (reached_ != QpState::rts && reached_ != QpState::sqd)
    return {Code::bad_state, 0, "sends can be posted in RTS, SQD and ERR only"};
  PostStatus status;
  while (status && !requests.empty()) {
    const PostStatus part = post_batch(requests);
    status = {part.code, status.accepted + part.accepted, part.reason};
    requests = requests.subspan(part.accepted);
  }
  return status;
}

PostStatus SrdQp::post_recv(std::span<const RecvRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  const std::lock_guard lock(mutex_);
  if (reached_ == QpState::reset)
    return {Code::bad_state, 0, "receives can be posted from INIT on"};
  if (reached_ == QpState::err)
    return flush_all(requests, number(), *SrdCq::of(options_.recv_cq, context()),
                     [this](const RecvRequest& r) {
                       uint32_t length = 0;
                       return transport::invalid_reason(r, receive_limits(), length);
                     });
  PostStatus status;
  for (const RecvRequest& r : requests) {
    status = post_one(r, status.accepted);
    if (!status) break;
  }
  return status;
}

// `before` were taken before it.
PostStatus SrdQp::post_one(const RecvRequest& r, uint32_t before) noexcept {
  uint32_t length = 0;
  if (const char* const reason = transport::invalid_reason(r, receive_limits(), length))
    return {Code::invalid_argument, before, reason};
  const std::optional<uint32_t> slot = receives_.take({r.id, length, WorkType::recv, true});
  if (!slot) return {Code::queue_full, before, kReceivesFull};
  ibv_recv_wr work{}, *bad = nullptr;
  work.wr_id = SrdWorkId{false, *slot, resets_}.pack();
  work.sg_list = entries(r.sges);
  work.num_sge = static_cast<int>(r.sges.size());
  const int error = ibv_post_recv(qp_.get(), &work, &bad);
  if (error == 0) return {Code::ok, before + 1, nullptr};
  receives_.release_slot(*slot);
  PostStatus status{Code::ok, before, nullptr};
  refuse(status, error, kReceivesFull);
  return status;
}

}  // namespace weft::ibverbs
