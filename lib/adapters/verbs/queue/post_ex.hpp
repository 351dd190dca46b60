// SPDX-License-Identifier: BSD-3-Clause
// The functions of ibv_qp_ex (ibv_wr_*).
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Sets them and what ibv_qp_to_qp_ex() needs. Returns EOPNOTSUPP if the queue pair cannot do all
// of `send_ops` (ibv_qp_create_send_ops_flags). Throws std::bad_alloc.
int set_extended_post(Qp& qp, uint64_t send_ops);
void free_extended_post(Qp& qp) noexcept;

}  // namespace weft::drop_in
