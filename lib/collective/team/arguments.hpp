// SPDX-License-Identifier: BSD-3-Clause
// From the arguments of a call to a task: they are checked, a plan is made, and memory is
// registered.
#pragma once

#include "lib/collective/team/call_memory.hpp"

namespace weft::collective {

// As the caller gives them.
struct Arguments {
  Collective collective = Collective::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  uint32_t root = 0;
  Blocks blocks = {};
};

Error invalid(Collective collective, const std::string& text);
// For calls that cannot be in place: buffers are not null and do not overlap.
Result<void> check_apart(Collective collective, const void* input, size_t input_bytes,
                         const void* output, size_t output_bytes);

// A task that is ready for Team::issue(). Errors: those of Operation::test().
Result<TaskPtr> make_task(Team& team, const Arguments& arguments, const CallOptions& options);
// The same call again, after it has ended. Errors: bad_state, not_supported.
Result<TaskPtr> repeat_task(Team& team, const Task& earlier);
Result<TaskPtr> make_barrier(Team& team, const CallOptions& options);
Result<TaskPtr> make_exchange(Team& team, std::span<const Transfer> transfers,
                              const CallOptions& options);

// make_task() in two parts, for tasks whose blocks are not known before they run. A new task has
// the fields that ranks compare; `sequence` is next_sequence() or greater. plan_task() gives it its
// plan and memory, except a buffer that the task has registered already.
Result<TaskPtr> new_task(Team& team, const Arguments& arguments, const CallOptions& options,
                         uint64_t sequence);
Result<void> plan_task(Team& team, Task& task, const Arguments& arguments);

// The elements of all blocks must take fewer bytes.
inline constexpr size_t kMostBytes = SIZE_MAX / 16;

}  // namespace weft::collective
