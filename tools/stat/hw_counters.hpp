// SPDX-License-Identifier: BSD-3-Clause
// A device's counters under the names of the kernel's rxe driver in
// /sys/class/infiniband/rxe0/ports/1/hw_counters, for existing monitoring.
#pragma once

#include "tools/stat/process.hpp"

namespace weft::stat {

// Adds "hw_counters" to each device of weft's own providers: the rxe counters that it has.
// tests/interop/README.md lists differences in meaning. Without counterpart: send_err, link_downed,
// rdma_sends, rdma_recvs, ack_deferred.
void add_hw_counters(Json& snapshot);

}  // namespace weft::stat
