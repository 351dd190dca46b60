// SPDX-License-Identifier: BSD-3-Clause
// ibv_post_send, ibv_post_recv and ibv_post_srq_recv. A list is converted in batches on the stack.
#include "lib/adapters/verbs/queue/post.hpp"

#include <cstring>
#include <memory>

#include "lib/adapters/verbs/batch.hpp"
#include "lib/adapters/verbs/context.hpp"
#include "lib/adapters/verbs/memory/memory.hpp"
#include "lib/adapters/verbs/references.hpp"

namespace weft::drop_in {
namespace {

// The value is taken at once, as if it were inline. Where the entry does not name 8 bytes of the
// program, a WRITE of it fails as this request would: with IBV_WC_LOC_PROT_ERR.
bool set_atomic_write(const ibv_qp& qp, const ibv_send_wr& wr, SendRequest& to) noexcept {
  if (wr.num_sge != 1 || wr.sg_list[0].length != sizeof to.swap || qp.pd == nullptr) return false;
  to.remote_address = wr.wr.rdma.remote_addr;
  to.rkey = RKey{wr.wr.rdma.rkey};
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    std::memcpy(&to.swap, reinterpret_cast<const void*>(wr.sg_list[0].addr), sizeof to.swap);
    to.flags = send_flags_of(wr.send_flags & ~unsigned{IBV_SEND_INLINE});
  } else if (!copy_local(*qp.pd, wr.sg_list[0], &to.swap)) {
    to.opcode = Opcode::write;
    return true;
  }
  to.opcode = Opcode::atomic_write;
  to.sges = {};
  return true;
}

// Fills the fields that `wr.opcode` uses. False if the opcode or a pointer is invalid.
bool set_operation(const ibv_qp& qp, const ibv_send_wr& wr, SendRequest& to,
                   WindowBind& bind) noexcept {
  switch (wr.opcode) {
    case IBV_WR_SEND:
      return true;
    case IBV_WR_SEND_WITH_IMM:
      to.opcode = Opcode::send_with_imm;
      to.imm = __builtin_bswap32(wr.imm_data);
      return true;
    case IBV_WR_SEND_WITH_INV:
      to.opcode = Opcode::send_with_invalidate;
      to.invalidate = RKey{wr.invalidate_rkey};
      return true;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      to.imm = __builtin_bswap32(wr.imm_data);
      [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      to.opcode = wr.opcode == IBV_WR_RDMA_READ    ? Opcode::read
                  : wr.opcode == IBV_WR_RDMA_WRITE ? Opcode::write
                                                   : Opcode::write_with_imm;
      to.remote_address = wr.wr.rdma.remote_addr;
      to.rkey = RKey{wr.wr.rdma.rkey};
      return true;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      to.opcode = wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? Opcode::compare_swap : Opcode::fetch_add;
      to.remote_address = wr.wr.atomic.remote_addr;
      to.rkey = RKey{wr.wr.atomic.rkey};
      to.compare_add = wr.wr.atomic.compare_add;
      to.swap = wr.wr.atomic.swap;
      return true;
    case IBV_WR_ATOMIC_WRITE:
      return set_atomic_write(qp, wr, to);
    case IBV_WR_LOCAL_INV:
      to.opcode = Opcode::local_invalidate;
      to.invalidate = RKey{wr.invalidate_rkey};
      to.sges = {};
      return true;
    case IBV_WR_BIND_MW:
      if (wr.bind_mw.mw == nullptr || wr.bind_mw.mw->type != IBV_MW_TYPE_2) return false;
      bind = window_bind_of(wr.bind_mw.mw, wr.bind_mw.bind_info);
      to.opcode = Opcode::bind_window;
      to.rkey = RKey{wr.bind_mw.rkey};
      to.bind = &bind;
      to.sges = {};
      return true;
    default:
      return false;
  }
}

// Null, or what is wrong with the request.
const char* convert(const ibv_qp& qp, const ibv_send_wr& wr, SendRequest& to,
                    WindowBind& bind) noexcept {
  std::construct_at(&to, SendRequest{.id = wr.wr_id,
                                     .opcode = Opcode::send,
                                     .flags = send_flags_of(wr.send_flags),
                                     .sges = sges_of(wr.sg_list, wr.num_sge)});
  if ((wr.send_flags & ~kKnownSendFlags) != 0) [[unlikely]]
    return kUnknownSendFlags;
  if (!set_operation(qp, wr, to, bind)) return "opcode, or what goes with it, is not known";
  if (wr.num_sge < 0) return "num_sge is negative";
  if (qp.qp_type == IBV_QPT_UD || qp.qp_type == IBV_QPT_DRIVER) {
    const bool is_send = wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM;
    if (qp.qp_type == IBV_QPT_DRIVER && !is_send)
      return "SRD: only SENDs have room for an address here: use ibv_wr_*";
    if (wr.wr.ud.ah == nullptr) return "ah is null";
    to.to = &of(wr.wr.ud.ah).handle;
    to.remote_qpn = QpNum{wr.wr.ud.remote_qpn};
    to.remote_qkey = wr.wr.ud.remote_qkey;
  } else if (qp.qp_type == IBV_QPT_XRC_SEND) {
    to.remote_srq = wr.qp_type.xrc.remote_srqn;
  }
  return nullptr;
}

// The type 1 key of a window is known once the request is posted; type 2 has the program's.
void note_window_keys(const ibv_send_wr* wr, size_t count) noexcept {
  for (; count != 0; --count, wr = wr->next)
    if (wr->opcode == IBV_WR_BIND_MW) wr->bind_mw.mw->rkey = wr->bind_mw.rkey;
}

int refuse_list(const char* call, ibv_send_wr* wr, ibv_send_wr** bad, Code code,
                const char* reason) noexcept {
  *bad = wr;
  return refuse(errno_of(code == Code::bad_state ? Code::invalid_argument : code), call,
                "wr_id %llu: %s", static_cast<unsigned long long>(wr->wr_id), reason);
}

template <class Wr>
Wr* after(Wr* wr, size_t count) noexcept {
  for (; count != 0; --count) wr = wr->next;
  return wr;
}

int post_send(ibv_qp* verbs, ibv_send_wr* list, ibv_send_wr** bad) noexcept {
  constexpr const char* kCall = "ibv_post_send";
  const Qp& qp = of(verbs);
  Batch<SendRequest> requests;
  Batch<WindowBind> binds;
  ibv_send_wr* wr = list;
  while (wr != nullptr) {
    ibv_send_wr* const first = wr;
    const char* wrong = nullptr;
    size_t count = 0;
    bool binds_window = false;
    for (; wr != nullptr && count < kBatch && wrong == nullptr; wr = wr->next) {
      wrong = convert(*verbs, *wr, requests[count].value, binds[count].value);
      if (wrong != nullptr) break;
      binds_window = binds_window || wr->opcode == IBV_WR_BIND_MW;
      ++count;
    }
    WEFT_DCHECK(count <= kBatch && (count != 0 || wrong != nullptr));
    const PostStatus status = qp.pair.post_send({&requests[0].value, count});
    WEFT_DCHECK(status.accepted <= count && (!status || status.accepted == count));
    if (binds_window) note_window_keys(first, status.accepted);
    if (!status)
      return refuse_list(kCall, after(first, status.accepted), bad, status.code, status.reason);
    if (wrong != nullptr) return refuse_list(kCall, wr, bad, Code::invalid_argument, wrong);
  }
  return 0;
}

// `queue` is a queue pair or a shared receive queue.
template <class Queue>
int post_receives(const char* call, const Queue& queue, ibv_recv_wr* list,
                  ibv_recv_wr** bad) noexcept {
  Batch<RecvRequest> requests;
  ibv_recv_wr* wr = list;
  while (wr != nullptr) {
    ibv_recv_wr* const first = wr;
    size_t count = 0;
    for (; wr != nullptr && count < kBatch && wr->num_sge >= 0; wr = wr->next)
      std::construct_at(&requests[count++].value,
                        RecvRequest{.id = wr->wr_id, .sges = sges_of(wr->sg_list, wr->num_sge)});
    const PostStatus status = queue.post_recv({&requests[0].value, count});
    if (!status) {
      *bad = after(first, status.accepted);
      const Code code = status.code == Code::bad_state ? Code::invalid_argument : status.code;
      return refuse(errno_of(code), call, "%s", status.reason);
    }
    if (wr != nullptr && wr->num_sge < 0) {
      *bad = wr;
      return refuse(EINVAL, call, "num_sge is %d", wr->num_sge);
    }
  }
  return 0;
}

int post_recv(ibv_qp* verbs, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  constexpr const char* kCall = "ibv_post_recv";
  Qp& qp = of(verbs);
  if (qp.init.cap.max_recv_wr == 0 || verbs->srq != nullptr) {
    *bad = list;
    return refuse(verbs->srq != nullptr ? EINVAL : ENOMEM, kCall,
                  "the queue pair has no receive queue of its own");
  }
  return post_receives(kCall, qp.pair, list, bad);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  return post_receives("ibv_post_srq_recv", of(srq).queue, list, bad);
}

}  // namespace

void set_post_operations(verbs_context& verbs) noexcept {
  verbs.context.ops.post_send = post_send;
  verbs.context.ops.post_recv = post_recv;
  verbs.context.ops.post_srq_recv = post_srq_recv;
}

}  // namespace weft::drop_in
