// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups of an id.
#pragma once

#include "lib/adapters/verbs/rdmacm/objects.hpp"

namespace weft::rdmacm {

void leave_groups(Id& id);

}  // namespace weft::rdmacm
