// SPDX-License-Identifier: BSD-3-Clause
// What RESET and destruction of a queue pair have in common.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// Drops the completions of the queue pair from its completion queues: a program does not expect
// them any more. Throws std::bad_alloc.
void drop_completions_of(const ibv_qp& qp);

}  // namespace weft::drop_in
