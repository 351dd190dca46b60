// SPDX-License-Identifier: BSD-3-Clause
// The walk of an SRD queue pair through the states of verbs: whose engine it is does not matter. It
// needs no connection; programs walk because verbs programs do, and may name a default destination
// on the way.
#pragma once

#include "weft/qp.hpp"

namespace weft::transport {

// Whether `change` may be applied to a queue pair in state `from`. Errors: bad_state (what can
// follow), invalid_argument (an attribute out of range).
Result<void> check_srd_transition(QpState from, const QueuePairAttributes& change,
                                  uint32_t max_mtu);

}  // namespace weft::transport
