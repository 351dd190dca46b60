// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_rma of endpoints of type FI_EP_RDM: READ, WRITE, WRITE_WITH_IMM of SRD.
#include <rdma/fi_errno.h>

#include "lib/adapters/fi/rdm/endpoint.hpp"

namespace weft::fi {
namespace {

ssize_t readv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t from, uint64_t address,
              uint64_t key, void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_rma(Opcode::read, iov, count, from, address, key, 0, context,
                     ep.bound.transmit.default_flags());
}

ssize_t read(fid_ep* fid, void* buffer, size_t length, void*, fi_addr_t from, uint64_t address,
             uint64_t key, void* context) noexcept {
  const iovec iov{buffer, length};
  return readv(fid, &iov, nullptr, 1, from, address, key, context);
}

ssize_t message(fid_ep* fid, Opcode opcode, const fi_msg_rma* msg, uint64_t flags) noexcept {
  Rdm& ep = rdm_of(fid);
  if (msg->rma_iov_count != 1) return -FI_EINVAL;
  return ep.post_rma(opcode, msg->msg_iov, msg->iov_count, msg->addr, msg->rma_iov->addr,
                     msg->rma_iov->key, msg->data, msg->context,
                     ep.bound.transmit.call_flags(flags));
}

ssize_t readmsg(fid_ep* fid, const fi_msg_rma* msg, uint64_t flags) noexcept {
  return message(fid, Opcode::read, msg, flags);
}

ssize_t writev(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t to, uint64_t address,
               uint64_t key, void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  return ep.post_rma(Opcode::write, iov, count, to, address, key, 0, context,
                     ep.bound.transmit.default_flags());
}

ssize_t write(fid_ep* fid, const void* buffer, size_t length, void*, fi_addr_t to, uint64_t address,
              uint64_t key, void* context) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return writev(fid, &iov, nullptr, 1, to, address, key, context);
}

ssize_t writemsg(fid_ep* fid, const fi_msg_rma* msg, uint64_t flags) noexcept {
  return message(fid, Opcode::write, msg, flags);
}

ssize_t inject(fid_ep* fid, const void* buffer, size_t length, fi_addr_t to, uint64_t address,
               uint64_t key) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return rdm_of(fid).post_rma(Opcode::write, &iov, 1, to, address, key, 0, nullptr, FI_INJECT);
}

ssize_t writedata(fid_ep* fid, const void* buffer, size_t length, void*, uint64_t data,
                  fi_addr_t to, uint64_t address, uint64_t key, void* context) noexcept {
  Rdm& ep = rdm_of(fid);
  const iovec iov{const_cast<void*>(buffer), length};
  return ep.post_rma(Opcode::write, &iov, 1, to, address, key, data, context,
                     ep.bound.transmit.default_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t injectdata(fid_ep* fid, const void* buffer, size_t length, uint64_t data, fi_addr_t to,
                   uint64_t address, uint64_t key) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return rdm_of(fid).post_rma(Opcode::write, &iov, 1, to, address, key, data, nullptr,
                              FI_INJECT | FI_REMOTE_CQ_DATA);
}

fi_ops_rma kOps = {.size = sizeof(fi_ops_rma),
                   .read = read,
                   .readv = readv,
                   .readmsg = readmsg,
                   .write = write,
                   .writev = writev,
                   .writemsg = writemsg,
                   .inject = inject,
                   .writedata = writedata,
                   .injectdata = injectdata};

}  // namespace

fi_ops_rma& rma_ops() noexcept { return kOps; }

}  // namespace weft::fi
