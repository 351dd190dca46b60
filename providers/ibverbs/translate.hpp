// SPDX-License-Identifier: BSD-3-Clause
// The words of weft and of libibverbs for the same things. Pure functions, one switch each.
#pragma once

#include <infiniband/verbs.h>

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
unsigned to_verbs(SendFlags flags) noexcept;
ibv_wr_opcode to_verbs(Opcode opcode) noexcept;  // not of write_add
ibv_mtu mtu_to_verbs(uint32_t bytes) noexcept;   // 256 .. 4096
uint32_t mtu_from_verbs(ibv_mtu mtu) noexcept;
ibv_gid to_verbs(const Gid& gid) noexcept;
Gid from_verbs(const ibv_gid& gid) noexcept;
// The packets of a path, from the address that `gid_index` names.
ibv_ah_attr to_verbs(const AddressVector& path, uint8_t port, uint8_t gid_index) noexcept;

Status from_verbs(ibv_wc_status status) noexcept;
// A completion. Of a failed one only id, qp, status and vendor_error mean something.
Completion from_verbs(const ibv_wc& done) noexcept;

}  // namespace weft::ibverbs
