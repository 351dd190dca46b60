// SPDX-License-Identifier: BSD-3-Clause
// Registered memory for calls. Errors of all functions: those of register_memory.
#pragma once

#include "lib/collective/team/team.hpp"

namespace weft::collective {

// Null if the buffer is so short that its pieces are copied. `written`: peers may write there.
Result<RegisteredPtr> register_buffer(Team& team, const void* memory, size_t bytes, bool written);

// Input, output and work space of a task whose plan is known.
Result<void> register_memory(Team& team, Task& task);

// Memory of the call's lane for data that are packed before a call or unpacked after it. Null for
// no bytes.
Result<RegisteredPtr> packed_space(Team& team, const Call& call, size_t bytes);

}  // namespace weft::collective
