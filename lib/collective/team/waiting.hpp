// SPDX-License-Identifier: BSD-3-Clause
// Blocking on a team: polling, then yielding the processor, then sleeping on the completion queue's
// descriptor.
#pragma once

#include "lib/collective/team/team.hpp"

namespace weft::collective {

// Makes progress until the task is done, or it is `until`.
void wait_until(Team& team, const Task& task, Instant until);
// Until it is done. Errors: the task's.
Result<void> wait(Team& team, const Task& task);
// Completes what was sent, fails tasks that do not end, and notifies the peers that this rank
// leaves. Takes at most 2.5 seconds.
void leave(Team& team) noexcept;

}  // namespace weft::collective
