// SPDX-License-Identifier: BSD-3-Clause
// Completions of weft in those of verbs.
#pragma once

#include <infiniband/verbs.h>

#include <array>

#include "lib/adapters/verbs/objects.hpp"
#include "weft/wr.hpp"

namespace weft::drop_in {

// By Status and by WorkType.
inline constexpr std::array kStatuses{
    IBV_WC_SUCCESS,           IBV_WC_LOC_LEN_ERR,    IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR,
    IBV_WC_WR_FLUSH_ERR,      IBV_WC_MW_BIND_ERR,    IBV_WC_BAD_RESP_ERR,  IBV_WC_LOC_ACCESS_ERR,
    IBV_WC_REM_INV_REQ_ERR,   IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR,    IBV_WC_RETRY_EXC_ERR,
    IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR,  IBV_WC_FATAL_ERR};
static_assert(kStatuses.size() == static_cast<size_t>(Status::fatal) + 1);
inline constexpr std::array kOpcodes{IBV_WC_SEND,
                                     IBV_WC_RDMA_WRITE,
                                     IBV_WC_RDMA_READ,
                                     IBV_WC_COMP_SWAP,
                                     IBV_WC_FETCH_ADD,
                                     IBV_WC_RDMA_WRITE,
                                     IBV_WC_ATOMIC_WRITE,
                                     static_cast<ibv_wc_opcode>(8),  // FLUSH, in newer headers
                                     IBV_WC_BIND_MW,
                                     IBV_WC_LOCAL_INV,
                                     IBV_WC_RECV,
                                     IBV_WC_RECV};
static_assert(kOpcodes.size() == static_cast<size_t>(WorkType::recv_with_imm) + 1);

inline ibv_wc_status status_of(const Completion& from) noexcept {
  return kStatuses[static_cast<size_t>(from.status)];
}
inline ibv_wc_opcode opcode_of(const Completion& from) noexcept {
  const bool is_write = has(from.flags, CompletionFlags::rdma_write);
  return is_write ? IBV_WC_RECV_RDMA_WITH_IMM : kOpcodes[static_cast<size_t>(from.type)];
}
inline unsigned wc_flags_of(const Completion& from) noexcept {
  unsigned flags = 0;
  if (has(from.flags, CompletionFlags::with_imm)) flags |= IBV_WC_WITH_IMM;
  if (has(from.flags, CompletionFlags::with_invalidate)) flags |= IBV_WC_WITH_INV;
  if (has(from.flags, CompletionFlags::grh)) flags |= IBV_WC_GRH;
  return flags;
}
// Immediate data in network byte order, or the invalidated key.
inline uint32_t imm_or_key_of(const Completion& from) noexcept {
  return has(from.flags, CompletionFlags::with_imm) ? __builtin_bswap32(from.imm_or_key)
                                                    : from.imm_or_key;
}
inline uint8_t sl_of(const Cq& cq) noexcept { return cq.context->sl_of_datagrams; }

// Takes up to `wanted` completions; `times` may be null.
size_t take(Cq& cq, Completion* completions, Instant* times, size_t wanted) noexcept;

}  // namespace weft::drop_in
