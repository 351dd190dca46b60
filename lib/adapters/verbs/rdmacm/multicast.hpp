// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups of an id.
#pragma once

#include "lib/adapters/verbs/rdmacm/objects.hpp"

namespace weft::rdmacm {

// Detaches the queue pair, which may then be destroyed; the id stays a member.
void detach_groups(Id& id);
void leave_groups(Id& id);

}  // namespace weft::rdmacm
