// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_msg of endpoints and shared receive contexts: see post.hpp.
#include "lib/adapters/fi/msg/post.hpp"

#include <rdma/fi_errno.h>

#include "lib/adapters/fi/common/calls.hpp"

namespace weft::fi {
namespace {

constexpr uint64_t kSend = FI_SEND | FI_MSG;

ssize_t send_flags(Ep& ep, const iovec* iov, size_t count, uint64_t data, void* context,
                   uint64_t flags) noexcept {
  SendRequest request;
  if (flags & FI_REMOTE_CQ_DATA) {
    request.opcode = Opcode::send_with_imm;
    request.imm = static_cast<uint32_t>(data);
  }
  return post(ep, request, iov, count, context, flags, kSend);
}

ssize_t sendmsg(fid_ep* fid, const fi_msg* msg, uint64_t flags) noexcept {
  Ep& ep = endpoint_of(fid);
  return send_flags(ep, msg->msg_iov, msg->iov_count, msg->data, msg->context,
                    ep.bound.transmit.call_flags(flags));
}

ssize_t sendv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t,
              void* context) noexcept {
  Ep& ep = endpoint_of(fid);
  return send_flags(ep, iov, count, 0, context, ep.bound.transmit.default_flags());
}

ssize_t send(fid_ep* fid, const void* buffer, size_t length, void*, fi_addr_t,
             void* context) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return sendv(fid, &iov, nullptr, 1, 0, context);
}

ssize_t senddata(fid_ep* fid, const void* buffer, size_t length, void*, uint64_t data, fi_addr_t,
                 void* context) noexcept {
  Ep& ep = endpoint_of(fid);
  const iovec iov{const_cast<void*>(buffer), length};
  return send_flags(ep, &iov, 1, data, context,
                    ep.bound.transmit.default_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t inject(fid_ep* fid, const void* buffer, size_t length, fi_addr_t) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return send_flags(endpoint_of(fid), &iov, 1, 0, nullptr, kInjected);
}

ssize_t injectdata(fid_ep* fid, const void* buffer, size_t length, uint64_t data,
                   fi_addr_t) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return send_flags(endpoint_of(fid), &iov, 1, data, nullptr, kInjected | FI_REMOTE_CQ_DATA);
}

// Posts a receive to a queue pair or a shared receive queue, and records it in `operations`.
template <class Queue>
ssize_t receive(const Queue& queue, Operations& operations, uint32_t owner,
                const OpenDevice& device, const iovec* iov, size_t count, void* context,
                bool reports) noexcept {
  Pieces pieces;
  if (!put_pieces(device, iov, count, pieces)) return -FI_EINVAL;
  const auto index =
      operations.take({.context = context, .flags = FI_RECV | FI_MSG, .reports = reports});
  if (!index) return -FI_EAGAIN;
  const PostStatus posted =
      queue.post_recv(RecvRequest{.id = RequestId{owner, *index}.packed(), .sges = pieces.span()});
  if (posted) return 0;
  operations.finish(*index);
  return code_of(posted.code);
}

ssize_t recv_flags(fid_ep* fid, const iovec* iov, size_t count, void* context,
                   uint64_t flags) noexcept {
  Ep& ep = endpoint_of(fid);
  if (flags & FI_MULTI_RECV)
    return not_supported(FI_LOG_EP_DATA, "fi_recvmsg: FI_MULTI_RECV is not offered");
  if (!ep.qp || ep.shared != nullptr) return -FI_EOPBADSTATE;
  return receive(ep.qp, ep.receives, ep.number, *ep.domain.device, iov, count, context,
                 (ep.bound.receive.call_flags(flags) & FI_COMPLETION) != 0);
}

ssize_t recvmsg(fid_ep* fid, const fi_msg* msg, uint64_t flags) noexcept {
  return recv_flags(fid, msg->msg_iov, msg->iov_count, msg->context, flags);
}

ssize_t recvv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t,
              void* context) noexcept {
  return recv_flags(fid, iov, count, context, endpoint_of(fid).bound.receive.flags);
}

ssize_t recv(fid_ep* fid, void* buffer, size_t length, void*, fi_addr_t, void* context) noexcept {
  const iovec iov{buffer, length};
  return recvv(fid, &iov, nullptr, 1, 0, context);
}

SharedReceive& shared_of(fid_ep* srx) noexcept { return *static_cast<SharedReceive*>(srx); }

ssize_t shared_recvv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t,
                     void* context) noexcept {
  SharedReceive& shared = shared_of(fid);
  return receive(shared.queue, shared.receives, shared.number, *shared.domain.device, iov, count,
                 context, true);
}

ssize_t shared_recv(fid_ep* fid, void* buffer, size_t length, void*, fi_addr_t,
                    void* context) noexcept {
  const iovec iov{buffer, length};
  return shared_recvv(fid, &iov, nullptr, 1, 0, context);
}

ssize_t shared_recvmsg(fid_ep* fid, const fi_msg* msg, uint64_t) noexcept {
  return shared_recvv(fid, msg->msg_iov, nullptr, msg->iov_count, 0, msg->context);
}

fi_ops_msg kOps = {.size = sizeof(fi_ops_msg),
                   .recv = recv,
                   .recvv = recvv,
                   .recvmsg = recvmsg,
                   .send = send,
                   .sendv = sendv,
                   .sendmsg = sendmsg,
                   .inject = inject,
                   .senddata = senddata,
                   .injectdata = injectdata};
fi_ops_msg kSharedOps = {.size = sizeof(fi_ops_msg),
                         .recv = shared_recv,
                         .recvv = shared_recvv,
                         .recvmsg = shared_recvmsg,
                         .send = not_implemented,
                         .sendv = not_implemented,
                         .sendmsg = not_implemented,
                         .inject = not_implemented,
                         .senddata = not_implemented,
                         .injectdata = not_implemented};

}  // namespace

bool put_pieces(const OpenDevice& device, const iovec* iov, size_t count, Pieces& out) noexcept {
  if (count > out.entries.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    out.length += iov[i].iov_len;
    if (iov[i].iov_len == 0) continue;
    if (iov[i].iov_len > UINT32_MAX) return false;
    out.entries[out.count++] = {.address = iov[i].iov_base,
                                .length = static_cast<uint32_t>(iov[i].iov_len),
                                .lkey = device.memory.lkey()};
  }
  return true;
}

ssize_t post(Ep& ep, SendRequest& request, const iovec* iov, size_t count, void* context,
             uint64_t flags, uint64_t completes_as) noexcept {
  Pieces pieces;
  if (!put_pieces(*ep.domain.device, iov, count, pieces)) return -FI_EINVAL;
  if (pieces.length > ep.info->ep_attr->max_msg_size) return -FI_EMSGSIZE;
  if (!ep.qp) return -FI_EOPBADSTATE;
  request.sges = pieces.span();
  request.flags = SendFlags::signaled;
  if (flags & FI_INJECT) {
    if (pieces.length > ep.info->tx_attr->inject_size) return -FI_EMSGSIZE;
    request.flags = request.flags | SendFlags::inline_data;
  }
  if (flags & FI_FENCE) request.flags = request.flags | SendFlags::fence;
  const auto index = ep.sends.take(
      {.context = context, .flags = completes_as, .reports = (flags & FI_COMPLETION) != 0});
  if (!index) return -FI_EAGAIN;
  request.id = RequestId{ep.number, *index}.packed();
  const PostStatus posted = ep.qp.post_send(request);
  if (posted) return 0;
  ep.sends.finish(*index);
  return code_of(posted.code);
}

fi_ops_msg& message_ops() noexcept { return kOps; }
fi_ops_msg& shared_receive_ops() noexcept { return kSharedOps; }

}  // namespace weft::fi
