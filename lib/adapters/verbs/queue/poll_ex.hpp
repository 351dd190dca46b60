// SPDX-License-Identifier: BSD-3-Clause
// The functions of ibv_cq_ex.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Sets ibv_start_poll and its like, and the read functions that `wc_flags` asks for.
void set_extended_poll(Cq& cq, uint64_t wc_flags) noexcept;

}  // namespace weft::drop_in
