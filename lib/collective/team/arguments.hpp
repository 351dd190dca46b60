// SPDX-License-Identifier: BSD-3-Clause
// From the arguments of a call to a task: they are checked, become a shape and a plan, and memory
// is registered.
#pragma once

#include "lib/collective/team/call_memory.hpp"

namespace weft::collective {

// What a program says in a call.
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
// Of calls that are not in place: buffers are there, and lie apart.
Result<void> check_apart(Collective collective, const void* input, size_t input_bytes,
                         const void* output, size_t output_bytes);

// A task that can be issued. Errors: those of Operation::test().
Result<TaskPtr> make_task(Team& team, const Arguments& arguments, const CallOptions& options);
// A call that is done, once more. Errors: bad_state, not_supported.
Result<TaskPtr> make_again(Team& team, const Task& earlier);
Result<TaskPtr> make_barrier(Team& team, const CallOptions& options);
Result<TaskPtr> make_exchange(Team& team, std::span<const Transfer> transfers,
                              const CallOptions& options);

// The same in two parts, for tasks whose blocks are not known before they run. A new task has what
// the ranks compare, and `sequence` behind the calls that have been issued. lay_out() gives it its
// plan and memory; an input or output that the task has registered already is not registered again.
Result<TaskPtr> new_task(Team& team, const Arguments& arguments, const CallOptions& options,
                         uint64_t sequence);
Result<void> lay_out(Team& team, Task& task, const Arguments& arguments);

// Elements of all blocks must be fewer than this many bytes hold.
inline constexpr size_t kMostBytes = SIZE_MAX / 16;

}  // namespace weft::collective
