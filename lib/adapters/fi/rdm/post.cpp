// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_msg of endpoints of type FI_EP_RDM.
#include <rdma/fi_errno.h>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"

namespace weft::fi {
namespace {

ssize_t sendmsg(fid_ep* fid, const fi_msg* msg, uint64_t flags) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_send(msg->msg_iov, msg->iov_count, msg->addr, false, 0, msg->data, msg->context,
                      ep.bound.transmit.call_flags(flags));
}

ssize_t sendv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t to,
              void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_send(iov, count, to, false, 0, 0, context, ep.bound.transmit.default_flags());
}

ssize_t send(fid_ep* fid, const void* buffer, size_t length, void*, fi_addr_t to,
             void* context) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return sendv(fid, &iov, nullptr, 1, to, context);
}

ssize_t senddata(fid_ep* fid, const void* buffer, size_t length, void*, uint64_t data, fi_addr_t to,
                 void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  const iovec iov{const_cast<void*>(buffer), length};
  return ep.post_send(&iov, 1, to, false, 0, data, context,
                      ep.bound.transmit.default_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t inject(fid_ep* fid, const void* buffer, size_t length, fi_addr_t to) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return rdm_of(fid).post_send(&iov, 1, to, false, 0, 0, nullptr, FI_INJECT);
}

ssize_t injectdata(fid_ep* fid, const void* buffer, size_t length, uint64_t data,
                   fi_addr_t to) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return rdm_of(fid).post_send(&iov, 1, to, false, 0, data, nullptr, FI_INJECT | FI_REMOTE_CQ_DATA);
}

ssize_t recvmsg(fid_ep* fid, const fi_msg* msg, uint64_t flags) noexcept {
  Rdm& ep = rdm_of(fid);
  if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
    return not_supported(FI_LOG_EP_DATA, "fi_recvmsg: FI_PEEK is for tagged messages");
  return ep.post_receive(msg->msg_iov, msg->iov_count, msg->addr, false, 0, 0, msg->context,
                         ep.bound.receive.call_flags(flags));
}

ssize_t recvv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t from,
              void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_receive(iov, count, from, false, 0, 0, context, ep.bound.receive.default_flags());
}

ssize_t recv(fid_ep* fid, void* buffer, size_t length, void*, fi_addr_t from,
             void* context) noexcept {
  const iovec iov{buffer, length};
  return recvv(fid, &iov, nullptr, 1, from, context);
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

}  // namespace

fi_ops_msg& message_ops() noexcept { return kOps; }

}  // namespace weft::fi
