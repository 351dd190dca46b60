// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_tagged of endpoints of type FI_EP_RDM.
#include <rdma/fi_errno.h>

#include "lib/adapters/fi/rdm/endpoint.hpp"

namespace weft::fi {
namespace {

ssize_t sendmsg(fid_ep* fid, const fi_msg_tagged* msg, uint64_t flags) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_send(msg->msg_iov, msg->iov_count, msg->addr, true, msg->tag, msg->data,
                      msg->context, ep.bound.transmit.call_flags(flags));
}

ssize_t sendv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t to, uint64_t tag,
              void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_send(iov, count, to, true, tag, 0, context, ep.bound.transmit.default_flags());
}

ssize_t send(fid_ep* fid, const void* buffer, size_t length, void*, fi_addr_t to, uint64_t tag,
             void* context) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return sendv(fid, &iov, nullptr, 1, to, tag, context);
}

ssize_t senddata(fid_ep* fid, const void* buffer, size_t length, void*, uint64_t data, fi_addr_t to,
                 uint64_t tag, void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  const iovec iov{const_cast<void*>(buffer), length};
  return ep.post_send(&iov, 1, to, true, tag, data, context,
                      ep.bound.transmit.default_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t inject(fid_ep* fid, const void* buffer, size_t length, fi_addr_t to,
               uint64_t tag) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return rdm_of(fid).post_send(&iov, 1, to, true, tag, 0, nullptr, FI_INJECT);
}

ssize_t injectdata(fid_ep* fid, const void* buffer, size_t length, uint64_t data, fi_addr_t to,
                   uint64_t tag) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return rdm_of(fid).post_send(&iov, 1, to, true, tag, data, nullptr,
                               FI_INJECT | FI_REMOTE_CQ_DATA);
}

ssize_t recvmsg(fid_ep* fid, const fi_msg_tagged* msg, uint64_t flags) noexcept {
  Rdm& ep = rdm_of(fid);
  if (flags & FI_PEEK) return ep.peek(msg->addr, msg->tag, msg->ignore, msg->context, flags);
  if (flags & FI_DISCARD) return ep.discard(msg->context);
  return ep.post_receive(msg->msg_iov, msg->iov_count, msg->addr, true, msg->tag, msg->ignore,
                         msg->context, ep.bound.receive.call_flags(flags));
}

ssize_t recvv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t from, uint64_t tag,
              uint64_t ignore, void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_receive(iov, count, from, true, tag, ignore, context,
                         ep.bound.receive.default_flags());
}

ssize_t recv(fid_ep* fid, void* buffer, size_t length, void*, fi_addr_t from, uint64_t tag,
             uint64_t ignore, void* context) noexcept {
  const iovec iov{buffer, length};
  return recvv(fid, &iov, nullptr, 1, from, tag, ignore, context);
}

fi_ops_tagged kOps = {.size = sizeof(fi_ops_tagged),
                      .recv = recv,
                      .recvv = recvv,
                      .recvmsg = recvmsg,
                      .send = send,
                      .sendv = sendv,
                      .sendmsg = sendmsg,
                      .inject = inject,
                      .senddata = senddata,
                      .injectdata = injectdata};

}  // namespace

fi_ops_tagged& tagged_ops() noexcept { return kOps; }

}  // namespace weft::fi
