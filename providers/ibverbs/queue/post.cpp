// SPDX-License-Identifier: BSD-3-Clause
// Posting to a queue pair; see post.hpp.
#include "providers/ibverbs/queue/post.hpp"

#include <arpa/inet.h>

#include "providers/ibverbs/context/region.hpp"
#include "providers/ibverbs/queue/cq.hpp"
#include "providers/ibverbs/queue/extended.hpp"
#include "providers/ibverbs/queue/qp.hpp"

namespace weft::ibverbs {

namespace {

constexpr Opcode kInvalidates = Opcode::send_with_invalidate;
constexpr Access kOfWindows =
    Access::remote_write | Access::remote_read | Access::remote_atomic | Access::zero_based;
constexpr const char* kNoHandle =
    "the device has no route to the address of SendRequest::to, or no more handles";

bool binds(const SendRequest& r) noexcept { return r.opcode == Opcode::bind_window; }

}  // namespace

const char* Qp::translate(const SendRequest& r, ibv_send_wr& work) noexcept {
  if (!is_plain(r))
    if (const char* const reason = invalid_reason(r)) return reason;
  work.wr_id = r.id;
  work.sg_list = entries(r.sges);
  work.num_sge = static_cast<int>(r.sges.size());
  work.opcode = to_verbs(r.opcode);
  work.send_flags = to_verbs(r.flags);
  if (r.opcode == kInvalidates || r.opcode == Opcode::local_invalidate)
    work.invalidate_rkey = r.invalidate.value;
  else
    work.imm_data = htonl(r.imm);
  if (options_.type == QpType::xrc_initiator) work.qp_type.xrc.remote_srqn = r.remote_srq;
  if (options_.type == QpType::ud) {
    work.wr.ud.ah = domain_->address_handle(r.to->path());
    if (work.wr.ud.ah == nullptr) return kNoHandle;
    work.wr.ud.remote_qpn = r.remote_qpn.value;
    work.wr.ud.remote_qkey = r.remote_qkey;
  } else if (transport::is_atomic(r.opcode)) {
    work.wr.atomic.remote_addr = r.remote_address;
    work.wr.atomic.compare_add = r.compare_add;
    work.wr.atomic.swap = r.swap;
    work.wr.atomic.rkey = r.rkey.value;
  } else {
    work.wr.rdma.remote_addr = r.remote_address;
    work.wr.rdma.rkey = r.rkey.value;
  }
  return nullptr;
}

bool Qp::takes_sends() const noexcept {
  const QpState reached = reached_.load(std::memory_order_relaxed);
  if (reached == QpState::reset || reached == QpState::init || reached == QpState::rtr)
    return state() == QpState::err;  // the device may have seen an error since
  return true;
}

PostStatus Qp::post_send(std::span<const SendRequest> requests) noexcept {
  if (mark_.passed() || ledger_ != nullptr ||
      reached_.load(std::memory_order_relaxed) != QpState::rts) [[unlikely]]
    return post_send_otherwise(requests);
  return post_in_order(requests);
}

PostStatus Qp::post_send_otherwise(std::span<const SendRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  if (options_.type == QpType::xrc_target)
    return {Code::invalid_argument, 0, invalid_opcode_reason(Opcode::send)};
  if (!takes_sends())
    return {Code::bad_state, 0, "sends can be posted in RTS, SQD, SQE and ERR only"};
  return ledger_ != nullptr ? post_by_ledger(requests) : post_in_order(requests);
}

PostStatus Qp::post_in_order(std::span<const SendRequest> requests) noexcept {
  if (requests.size() == 1) return post_some(requests);
  PostStatus status;
  while (status && !requests.empty()) {
    const PostStatus part = post_some(requests);
    status = {part.code, status.accepted + part.accepted, part.reason};
    requests = requests.subspan(part.accepted);
  }
  return status;
}

// As many requests as take the same path.
PostStatus Qp::post_some(std::span<const SendRequest> requests) noexcept {
  const bool can = extended_ != nullptr;
  if (can && is_for_extended(requests.front())) return post_extended(requests);
  if (binds(requests.front())) return bind(requests.front());
  const auto next = std::find_if(requests.begin(), requests.end(), [can](const SendRequest& r) {
    return binds(r) || (can && is_for_extended(r));
  });
  return post_list(requests.first(static_cast<size_t>(next - requests.begin())));
}

PostStatus Qp::post_extended(std::span<const SendRequest> requests) noexcept {
  std::array<ibv_ah*, kPostBatch> handles;
  const char* reason = nullptr;
  size_t n = 0;
  for (; n < std::min(kPostBatch, requests.size()) && is_for_extended(requests[n]); ++n) {
    if (is_plain(requests[n])) continue;
    reason = invalid_reason(requests[n]);
    if (reason == nullptr && options_.type == QpType::ud) {
      handles[n] = domain_->address_handle(requests[n].to->path());
      if (handles[n] == nullptr) reason = kNoHandle;
    }
    if (reason != nullptr) break;
  }
  PostStatus status;
  size_t accepted = 0;
  const int error = n == 0 ? 0 : submit_batch(n, accepted, [&](size_t first, size_t count) {
    return issue(requests.subspan(first, count), &handles[first]);
  });
  status.accepted = static_cast<uint32_t>(accepted);
  if (error != 0) {
    refuse(status, error, kSendQueueFull);
  } else if (reason != nullptr) {
    status.code = Code::invalid_argument;
    status.reason = reason;
  }
  return status;
}

// `handles`: of datagrams.
int Qp::issue(std::span<const SendRequest> requests, ibv_ah* const* handles) noexcept {
  ibv_wr_start(extended_);
  for (size_t i = 0; i < requests.size(); ++i) {
    const SendRequest& r = requests[i];
    extended_->wr_id = r.id;
    extended_->wr_flags = to_verbs(r.flags);
    issue_operation(*extended_, r);
    if (options_.type == QpType::ud)
      ibv_wr_set_ud_addr(extended_, handles[i], r.remote_qpn.value, r.remote_qkey);
    else if (options_.type == QpType::xrc_initiator)
      ibv_wr_set_xrc_srqn(extended_, r.remote_srq);
    issue_entry(*extended_, r.sges[0], has(r.flags, SendFlags::inline_data));
  }
  return ibv_wr_complete(extended_);
}

PostStatus Qp::post_list(std::span<const SendRequest> requests) noexcept {
  return post_all<ibv_send_wr>(
      requests, kSendQueueFull,
      [this](const SendRequest& r, ibv_send_wr& work) { return translate(r, work); },
      [this](ibv_send_wr* first, ibv_send_wr** bad) {
        return ibv_post_send(qp_.get(), first, bad);
      });
}

// Posted alone, since the device finds a window by its previous key: ibv_mw::rkey, which the
// program changes for type 2. A type 1 window has a call of its own, which chooses the key.
PostStatus Qp::bind(const SendRequest& r) noexcept {
  if (const char* const reason = invalid_reason(r)) return {Code::invalid_argument, 0, reason};
  const std::lock_guard lock(domain_->windows().mutex);
  Window& window = *dynamic_cast<Window*>(r.bind->window->impl().get());
  const Region* const region = region_of(r);
  ibv_mw* const raw = window.raw();
  if (raw == nullptr)
    return {Code::invalid_argument, 0,
            "the region that the window was bound to was deregistered: make a new window"};
  const ibv_mw_bind_info info{region->raw(), reinterpret_cast<uint64_t>(r.bind->address),
                              r.bind->size, to_verbs(r.bind->access & kOfWindows)};
  int error;
  if (window.type == WindowType::one) {
    ibv_mw_bind work{r.id, to_verbs(r.flags), info};
    error = ibv_bind_mw(qp_.get(), raw, &work);
  } else {
    ibv_send_wr work{}, *bad = nullptr;
    work.wr_id = r.id;
    work.opcode = IBV_WR_BIND_MW;
    work.send_flags = to_verbs(r.flags);
    work.bind_mw = {raw, r.rkey.value, info};
    error = ibv_post_send(qp_.get(), &work, &bad);
    if (error == 0) raw->rkey = r.rkey.value;
  }
  PostStatus status;
  if (error != 0) return refuse(status, error, kSendQueueFull), status;
  window.record_binding(region);
  status.accepted = 1;
  return status;
}

PostStatus Qp::post_recv(std::span<const RecvRequest> requests) noexcept {
  if (mark_.passed() || !receives_plainly_) [[unlikely]]
    return post_recv_otherwise(requests);
  const QpState reached = reached_.load(std::memory_order_relaxed);
  if (reached == QpState::reset || reached == QpState::err) [[unlikely]]
    return post_recv_otherwise(requests);
  return submit(requests);
}

PostStatus Qp::submit(std::span<const RecvRequest> requests) noexcept {
  return post_receives(requests, receive_limits_, ledger_ != nullptr,
                       [this](ibv_recv_wr* first, ibv_recv_wr** bad) {
                         return ibv_post_recv(qp_.get(), first, bad);
                       });
}

PostStatus Qp::post_recv_otherwise(std::span<const RecvRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  if (is_xrc(options_.type))
    return {Code::invalid_argument, 0,
            "XRC queue pairs have no receive queue: post to a shared receive queue of the domain"};
  if (reached_.load(std::memory_order_relaxed) == QpState::reset)
    return {Code::bad_state, 0, "receives can be posted from INIT on"};
  if (options_.shared_receive_queue)
    return {Code::invalid_argument, 0,
            "this queue pair takes its receives from a shared receive queue: post there"};
  if (ledger_ != nullptr) return post_by_ledger(requests);
  const PostStatus status = submit(requests);
  flush();
  return status;
}

// Requests posted in ERR are flushed (//= roce:C-STATE-61). rxe processes receives only when a
// packet arrives or on a transition to ERR, so the transition is repeated.
void Qp::flush() noexcept {
  ibv_qp_attr to_err{};
  to_err.qp_state = IBV_QPS_ERR;
  (void)context().library().modify_qp(qp_.get(), &to_err, IBV_QP_STATE);
}

}  // namespace weft::ibverbs
