// SPDX-License-Identifier: BSD-3-Clause
// Posting to a queue pair; see post.hpp.
#include "providers/ibverbs/post.hpp"

#include <arpa/inet.h>

#include "providers/ibverbs/cq.hpp"
#include "providers/ibverbs/qp.hpp"
#include "providers/ibverbs/region.hpp"

namespace weft::ibverbs {

namespace {

constexpr Opcode kInvalidates = Opcode::send_with_invalidate;
constexpr Access kOfWindows =
    Access::remote_write | Access::remote_read | Access::remote_atomic | Access::zero_based;
constexpr const char* kSendQueueFull =
    "the send queue is full: poll completions, or raise max_send_wr";

const char* objection_of_ud(const SendRequest& r, uint32_t length, uint32_t mtu) noexcept {
  if (r.opcode != Opcode::send && r.opcode != Opcode::send_with_imm)
    return "UD queue pairs only SEND, with or without immediate data";
  if (r.to == nullptr || r.remote_qpn.value == 0 || r.remote_qpn.value > Psn::kMask)
    return "a datagram needs SendRequest::to, remote_qpn and remote_qkey";
  if (length > mtu) return "a datagram has at most DeviceAttributes::active_mtu bytes";
  return nullptr;
}

const Window* window_of(const SendRequest& r) noexcept {
  if (r.bind == nullptr || r.bind->window == nullptr) return nullptr;
  return dynamic_cast<const Window*>(r.bind->window->impl().get());
}

const Region* region_of(const SendRequest& r) noexcept {
  if (r.bind->region == nullptr) return nullptr;
  return dynamic_cast<const Region*>(r.bind->region->impl().get());
}

const char* objection_to_local(const SendRequest& r, const Domain& domain) noexcept {
  if (!r.sges.empty() || has(r.flags, SendFlags::inline_data))
    return "binding and invalidating have no scatter/gather entries and no inline data";
  if (r.opcode == Opcode::local_invalidate) return nullptr;
  const Window* const window = window_of(r);
  if (window == nullptr) return "bind_window needs SendRequest::bind with a window of the device";
  const Region* const region = region_of(r);
  if (region == nullptr) return "a binding needs a region on this device, also with size 0";
  if (&window->domain() != &domain || &region->domain() != &domain)
    return "window, region and queue pair must be of one protection domain";
  if (window->type == WindowType::one && has(r.bind->access, Access::zero_based))
    return "only windows of type 2 can be zero_based";
  if (window->type == WindowType::two && r.rkey.value >> 8 != window->number)
    return "SendRequest::rkey must be a key of the window: MemoryWindow::next_key()";
  return nullptr;
}

bool binds(const SendRequest& r) noexcept { return r.opcode == Opcode::bind_window; }

}  // namespace

const char* Qp::objection(const SendRequest& r) const noexcept {
  const DeviceAttributes& device = context().attributes();
  if (r.opcode > Opcode::local_invalidate || r.opcode == Opcode::write_add)
    return "this provider has no such opcode";
  if (engine::is_effect(r.opcode)) return "this provider has no ATOMIC WRITE and no FLUSH yet";
  if (r.imm_high != 0)
    return "immediate data has 32 bits here: set imm_high to 0, or use provider srd";
  const engine::RequestLimits limits{options_.max_send_sge, options_.max_inline,
                                     device.max_message};
  uint32_t length = 0;
  if (const char* const reason = engine::objection(r, limits, length)) return reason;
  if (options_.type == QpType::ud) return objection_of_ud(r, length, device.active_mtu);
  if (!device.has_immediate &&
      (r.opcode == Opcode::send_with_imm || r.opcode == Opcode::write_with_imm))
    return "the device has no immediate data (DeviceAttributes::has_immediate)";
  if (!device.has_atomics && engine::is_atomic(r.opcode))
    return "the device has no atomics (DeviceAttributes::has_atomics)";
  if (options_.type == QpType::xrc_initiator && r.remote_srq > 0xFFFFFF)
    return "SendRequest::remote_srq has more than 24 bits";
  if (is_local(r.opcode)) return objection_to_local(r, *domain_);
  if (options_.type == QpType::uc &&
      (r.opcode > Opcode::write_with_imm || r.opcode == kInvalidates))
    return "UC queue pairs only SEND and WRITE, with or without immediate data";
  const bool answered = r.opcode == Opcode::read || engine::is_atomic(r.opcode);
  if (answered && max_rd_atomic_.load(std::memory_order_relaxed) == 0)
    return "READ and atomics need max_rd_atomic > 0";
  return nullptr;
}

const char* Qp::translate(const SendRequest& r, ibv_send_wr& work) noexcept {
  if (const char* const reason = objection(r)) return reason;
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
    if (work.wr.ud.ah == nullptr)
      return "the device has no route to the address of SendRequest::to, or no more handles";
    work.wr.ud.remote_qpn = r.remote_qpn.value;
    work.wr.ud.remote_qkey = r.remote_qkey;
  } else if (engine::is_atomic(r.opcode)) {
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
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  if (options_.type == QpType::xrc_target)
    return {Code::invalid_argument, 0, "an XRC target has no send queue: an XRC initiator sends"};
  if (!takes_sends())
    return {Code::bad_state, 0, "sends can be posted in RTS, SQD, SQE and ERR only"};
  if (context().attributes().only_by_cm && reached_ == QpState::err)
    return flush_all(requests, number(), static_cast<Cq&>(*options_.send_cq.impl()),
                     [this](const SendRequest& r) { return objection(r); });
  PostStatus status;
  while (status && !requests.empty()) {
    const auto single = std::find_if(requests.begin(), requests.end(), binds);
    const size_t before = static_cast<size_t>(single - requests.begin());
    const PostStatus part =
        before == 0 ? bind(requests.front()) : post_list(requests.first(before));
    status = {part.code, status.accepted + part.accepted, part.reason};
    requests = requests.subspan(part.accepted);
  }
  return status;
}

PostStatus Qp::post_list(std::span<const SendRequest> requests) noexcept {
  return post_all<ibv_send_wr>(
      requests, kSendQueueFull,
      [this](const SendRequest& r, ibv_send_wr& work) { return translate(r, work); },
      [this](ibv_send_wr* first, ibv_send_wr** bad) {
        return ibv_post_send(qp_.get(), first, bad);
      });
}

// By itself, for the device finds a window by the key that it had: ibv_mw::rkey, which is the
// program's to change for type 2. A type 1 window has a call of its own, which chooses the key.
PostStatus Qp::bind(const SendRequest& r) noexcept {
  if (const char* const reason = objection(r)) return {Code::invalid_argument, 0, reason};
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
  window.note(region);
  status.accepted = 1;
  return status;
}

PostStatus Qp::post_recv(std::span<const RecvRequest> requests) noexcept {
  if (context().forked()) return {Code::permission_denied, 0, kForked};
  if (is_xrc(options_.type))
    return {Code::invalid_argument, 0,
            "XRC queue pairs have no receive queue: post to a shared receive queue of the domain"};
  if (reached_.load(std::memory_order_relaxed) == QpState::reset)
    return {Code::bad_state, 0, "receives can be posted from INIT on"};
  if (options_.shared_receive_queue)
    return {Code::invalid_argument, 0,
            "this queue pair takes its receives from a shared receive queue: post there"};
  const engine::RequestLimits limits = receive_limits();
  const bool iwarp = context().attributes().only_by_cm;
  const bool in_error = reached_.load(std::memory_order_relaxed) == QpState::err;
  if (iwarp && in_error)
    return flush_all(requests, number(), static_cast<Cq&>(*options_.recv_cq.impl()),
                     [&limits](const RecvRequest& r) {
                       uint32_t length = 0;
                       return engine::objection(r, limits, length);
                     });
  const PostStatus status =
      post_receives(requests, limits, iwarp, [this](ibv_recv_wr* first, ibv_recv_wr** bad) {
        return ibv_post_recv(qp_.get(), first, bad);
      });
  if (in_error) flush();
  return status;
}

// What was posted in ERR comes back flushed (//= roce:C-STATE-61). rxe looks at a receive only when
// a packet comes or it is told to go to ERR, so it is told again.
void Qp::flush() noexcept {
  ibv_qp_attr to_err{};
  to_err.qp_state = IBV_QPS_ERR;
  (void)context().library().modify_qp(qp_.get(), &to_err, IBV_QP_STATE);
}

}  // namespace weft::ibverbs
