// SPDX-License-Identifier: BSD-3-Clause
// Posting by ibv_wr_*: requests are put into the device's queue one call each, with no list of
// ibv_send_wr between. Between ibv_wr_start() and ibv_wr_complete() libibverbs holds its lock on
// the queue pair; the device takes all of such a batch or nothing of it.
#pragma once

#include <arpa/inet.h>

#include "providers/ibverbs/queue/post.hpp"
#include "weft/device.hpp"

namespace weft::ibverbs {

// The operations of a queue pair that are posted so: all but local ones.
inline uint64_t operations_of(ibv_qp_type type, const DeviceAttributes& device) noexcept {
  uint64_t operations = IBV_QP_EX_WITH_SEND;
  if (device.has_immediate) operations |= IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (type == IBV_QPT_UD) return operations;
  operations |= IBV_QP_EX_WITH_RDMA_WRITE;
  if (device.has_immediate) operations |= IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (type == IBV_QPT_UC) return operations;
  operations |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV;
  if (device.has_atomics)
    operations |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  return operations;
}

// What is to be done, of every opcode that is not local.
inline void issue_operation(ibv_qp_ex& qp, const SendRequest& r) noexcept {
  switch (r.opcode) {
    case Opcode::write:
      return ibv_wr_rdma_write(&qp, r.rkey.value, r.remote_address);
    case Opcode::read:
      return ibv_wr_rdma_read(&qp, r.rkey.value, r.remote_address);
    case Opcode::write_with_imm:
      return ibv_wr_rdma_write_imm(&qp, r.rkey.value, r.remote_address, htonl(r.imm));
    case Opcode::send_with_imm:
      return ibv_wr_send_imm(&qp, htonl(r.imm));
    case Opcode::send_with_invalidate:
      return ibv_wr_send_inv(&qp, r.invalidate.value);
    case Opcode::compare_swap:
      return ibv_wr_atomic_cmp_swp(&qp, r.rkey.value, r.remote_address, r.compare_add, r.swap);
    case Opcode::fetch_add:
      return ibv_wr_atomic_fetch_add(&qp, r.rkey.value, r.remote_address, r.compare_add);
    default:
      return ibv_wr_send(&qp);
  }
}

// Whether a request is posted by ibv_wr_* where available. Requests of several entries are lists:
// rxe's calls for them take the wrong number of bytes (librxe of rdma-core 44, and later ones).
inline bool is_for_extended(const SendRequest& r) noexcept {
  return r.sges.size() == 1 && !is_local(r.opcode);
}

// And with which bytes, if they are of one entry.
inline void issue_entry(ibv_qp_ex& qp, const Sge& entry, bool is_inline) noexcept {
  if (is_inline) return ibv_wr_set_inline_data(&qp, entry.address, entry.length);
  ibv_wr_set_sge(&qp, entry.lkey.value, reinterpret_cast<uint64_t>(entry.address), entry.length);
}

// Submits a batch of n. submit(first, count) makes a batch of its own of some of them and returns
// what ibv_wr_complete() said. If all of them are refused they go one by one, up to the one that is
// to blame; `accepted` gets how many the device took. Returns the error, or 0.
template <class Submit>
int submit_batch(size_t n, size_t& accepted, Submit submit) noexcept {
  accepted = 0;
  const int error = submit(0, n);
  if (error == 0) return accepted = n, 0;
  if (n == 1) return error;
  for (; accepted < n; ++accepted)
    if (const int one = submit(accepted, 1); one != 0) return one;
  return 0;
}

}  // namespace weft::ibverbs
