// SPDX-License-Identifier: BSD-3-Clause
// The states of SRD queue pairs, of software and of ibverbs. An SRD queue pair needs no connection,
// but programs make the transitions of verbs, and may set a default destination with them.
#pragma once

#include "weft/qp.hpp"

namespace weft::transport {

// Whether `change` may be applied to a queue pair in state `from`. Errors: bad_state,
// invalid_argument (an attribute out of range).
Result<void> check_srd_transition(QpState from, const QueuePairAttributes& change,
                                  uint32_t max_mtu);

}  // namespace weft::transport
