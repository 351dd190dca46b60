// SPDX-License-Identifier: BSD-3-Clause
// Compares what the provider offers with a caller's hints, and says in the log which of them it
// cannot meet.
#pragma once

#include <rdma/fabric.h>

namespace weft::fi {

// Restricts `info`, which holds all that the provider has, to what the hints ask for; null hints
// ask for nothing in particular. -FI_ENODATA: a hint cannot be met.
int restrict_to(fi_info& info, uint32_t version, const fi_info* hints) noexcept;

}  // namespace weft::fi
