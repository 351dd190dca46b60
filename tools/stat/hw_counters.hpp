// SPDX-License-Identifier: BSD-3-Clause
// A device's counters under the names that the kernel's rxe has in
// /sys/class/infiniband/rxe0/ports/1/hw_counters, for who watches those already.
#pragma once

#include "tools/stat/process.hpp"

namespace weft::stat {

// Adds "hw_counters" to each device whose counters are ours: the names of rxe's that it counts.
// tests/interop/README.md says where the two mean something else. Left out, for nothing here counts
// them: send_err, link_downed, rdma_sends, rdma_recvs. Nothing defers an ACK.
void add_hw_counters(Json& look);

}  // namespace weft::stat
