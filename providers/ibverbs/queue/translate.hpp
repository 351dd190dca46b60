// SPDX-License-Identifier: BSD-3-Clause
// The words of weft and of libibverbs for the same things. Pure functions, one switch each.
#pragma once

#include <infiniband/verbs.h>

#include <iterator>
#include <optional>

#include "weft/wr.hpp"

namespace weft::ibverbs {

// Both are pieces of memory with a key, laid out alike: lists of them are handed on, not copied.
static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, address) == offsetof(ibv_sge, addr) &&
              offsetof(Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(Sge, lkey) == offsetof(ibv_sge, lkey) && sizeof(void*) == sizeof(uint64_t));

ibv_qp_type to_verbs(QpType type) noexcept;  // not of srd
ibv_qp_state to_verbs(QpState state) noexcept;
QpState from_verbs(ibv_qp_state state) noexcept;
unsigned to_verbs(Access access) noexcept;
inline unsigned to_verbs(SendFlags flags) noexcept {
  const auto bit = [flags](SendFlags ours, unsigned theirs) {
    return has(flags, ours) ? theirs : 0u;
  };
  return bit(SendFlags::signaled, IBV_SEND_SIGNALED) | bit(SendFlags::fence, IBV_SEND_FENCE) |
         bit(SendFlags::solicited, IBV_SEND_SOLICITED) |
         bit(SendFlags::inline_data, IBV_SEND_INLINE);
}
ibv_wr_opcode to_verbs(Opcode opcode) noexcept;  // not of write_add
ibv_mtu mtu_to_verbs(uint32_t bytes) noexcept;   // 256 .. 4096
uint32_t mtu_from_verbs(ibv_mtu mtu) noexcept;
ibv_gid to_verbs(const Gid& gid) noexcept;
Gid from_verbs(const ibv_gid& gid) noexcept;
// The highest rate of verbs that is not above `rate`, or else the lowest one; 0: none.
ibv_rate rate_to_verbs(Rate rate) noexcept;
// The packets of a path, from the address that `gid_index` names.
ibv_ah_attr to_verbs(const AddressVector& path, uint8_t port, uint8_t gid_index) noexcept;

Status from_verbs(ibv_wc_status status) noexcept;

// Of a request, by its opcode.
inline constexpr WorkType kWorkTypes[] = {WorkType::send,
                                          WorkType::write,
                                          WorkType::read,
                                          WorkType::compare_swap,
                                          WorkType::fetch_add,
                                          WorkType::bind_window,
                                          WorkType::local_invalidate};
static_assert(IBV_WC_SEND == 0 && IBV_WC_RDMA_WRITE == 1 && IBV_WC_RDMA_READ == 2 &&
              IBV_WC_COMP_SWAP == 3 && IBV_WC_FETCH_ADD == 4 && IBV_WC_BIND_MW == 5 &&
              IBV_WC_LOCAL_INV == 6);
// What a receive has besides.
void take_receive(const ibv_wc& done, Completion& c) noexcept;

// A completion. Of a failed one only id, qp, status and vendor_error mean something.
inline void from_verbs(const ibv_wc& done, Completion& c) noexcept {
  c = {.id = done.wr_id, .qp = QpNum{done.qp_num}};
  if (done.status != IBV_WC_SUCCESS) [[unlikely]] {
    c.status = from_verbs(done.status);
    c.vendor_error = static_cast<uint16_t>(done.vendor_err);
    return;
  }
  c.byte_count = done.byte_len;
  if (const size_t opcode = done.opcode; opcode < std::size(kWorkTypes))
    c.type = kWorkTypes[opcode];
  else if ((done.opcode & IBV_WC_RECV) != 0)
    take_receive(done, c);
}

}  // namespace weft::ibverbs
