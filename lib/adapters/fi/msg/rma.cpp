// SPDX-License-Identifier: BSD-3-Clause
// fi_ops_rma of endpoints: READ, WRITE, WRITE_WITH_IMM.
#include <rdma/fi_errno.h>

#include "lib/adapters/fi/msg/post.hpp"

namespace weft::fi {
namespace {

constexpr uint64_t kRead = FI_READ | FI_RMA;
constexpr uint64_t kWrite = FI_WRITE | FI_RMA;

struct Remote {
  uint64_t address, key;
};

ssize_t read_flags(Ep& ep, const iovec* iov, size_t count, Remote remote, void* context,
                   uint64_t flags) noexcept {
  if (remote.key > UINT32_MAX) return -FI_EKEYREJECTED;  // not one of this provider
  SendRequest request;
  request.opcode = Opcode::read;
  request.remote_address = remote.address;
  request.rkey = {static_cast<uint32_t>(remote.key)};
  return post(ep, request, iov, count, context, flags, kRead);
}

ssize_t write_flags(Ep& ep, const iovec* iov, size_t count, Remote remote, uint64_t data,
                    void* context, uint64_t flags) noexcept {
  if (remote.key > UINT32_MAX) return -FI_EKEYREJECTED;  // not one of this provider
  SendRequest request;
  request.opcode = flags & FI_REMOTE_CQ_DATA ? Opcode::write_with_imm : Opcode::write;
  request.imm = static_cast<uint32_t>(data);
  request.remote_address = remote.address;
  request.rkey = {static_cast<uint32_t>(remote.key)};
  return post(ep, request, iov, count, context, flags, kWrite);
}

ssize_t readv(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t, uint64_t address,
              uint64_t key, void* context) noexcept {
  Ep& ep = endpoint_of(fid);
  return read_flags(ep, iov, count, {address, key}, context, ep.bound.transmit.default_flags());
}

ssize_t read(fid_ep* fid, void* buffer, size_t length, void*, fi_addr_t, uint64_t address,
             uint64_t key, void* context) noexcept {
  const iovec iov{buffer, length};
  return readv(fid, &iov, nullptr, 1, 0, address, key, context);
}

ssize_t readmsg(fid_ep* fid, const fi_msg_rma* msg, uint64_t flags) noexcept {
  Ep& ep = endpoint_of(fid);
  if (msg->rma_iov_count != 1) return -FI_EINVAL;
  return read_flags(ep, msg->msg_iov, msg->iov_count, {msg->rma_iov->addr, msg->rma_iov->key},
                    msg->context, ep.bound.transmit.call_flags(flags));
}

ssize_t writev(fid_ep* fid, const iovec* iov, void**, size_t count, fi_addr_t, uint64_t address,
               uint64_t key, void* context) noexcept {
  Ep& ep = endpoint_of(fid);
  return write_flags(ep, iov, count, {address, key}, 0, context, ep.bound.transmit.default_flags());
}

ssize_t write(fid_ep* fid, const void* buffer, size_t length, void*, fi_addr_t, uint64_t address,
              uint64_t key, void* context) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return writev(fid, &iov, nullptr, 1, 0, address, key, context);
}

ssize_t writemsg(fid_ep* fid, const fi_msg_rma* msg, uint64_t flags) noexcept {
  Ep& ep = endpoint_of(fid);
  if (msg->rma_iov_count != 1) return -FI_EINVAL;
  return write_flags(ep, msg->msg_iov, msg->iov_count, {msg->rma_iov->addr, msg->rma_iov->key},
                     msg->data, msg->context, ep.bound.transmit.call_flags(flags));
}

ssize_t inject(fid_ep* fid, const void* buffer, size_t length, fi_addr_t, uint64_t address,
               uint64_t key) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return write_flags(endpoint_of(fid), &iov, 1, {address, key}, 0, nullptr, kInjected);
}

ssize_t writedata(fid_ep* fid, const void* buffer, size_t length, void*, uint64_t data, fi_addr_t,
                  uint64_t address, uint64_t key, void* context) noexcept {
  Ep& ep = endpoint_of(fid);
  const iovec iov{const_cast<void*>(buffer), length};
  return write_flags(ep, &iov, 1, {address, key}, data, context,
                     ep.bound.transmit.default_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t injectdata(fid_ep* fid, const void* buffer, size_t length, uint64_t data, fi_addr_t,
                   uint64_t address, uint64_t key) noexcept {
  const iovec iov{const_cast<void*>(buffer), length};
  return write_flags(endpoint_of(fid), &iov, 1, {address, key}, data, nullptr,
                     kInjected | FI_REMOTE_CQ_DATA);
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
