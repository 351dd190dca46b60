// SPDX-License-Identifier: BSD-3-Clause
// Which memory of a call is registered, and which of it peers may write.
#include "lib/collective/team/call_memory.hpp"

namespace weft::collective {
namespace {

// The buffers of the plan, except one that the task has registered already. Only reductions
// advertise memory to peers.
Result<void> register_buffers(Team& team, Task& task) {
  const Shape& shape = task.plan->shape;
  const bool written = reduces(shape.collective);
  const RegisteredPtr given = task.registered.empty() ? nullptr : task.registered.front();
  struct Buffer {
    std::byte* memory;
    uint64_t elements;
    bool written;
  };
  for (const Buffer& buffer : {Buffer{task.input, input_size(shape, team.rank()), false},
                               Buffer{task.output, output_size(shape, team.rank()), written}}) {
    if (given && buffer.memory == given->memory) continue;
    Result<RegisteredPtr> registered = register_buffer(
        team, buffer.memory, buffer.elements * task.arithmetic.element, buffer.written);
    if (!registered) return registered.error();
    if (*registered) task.registered.push_back(std::move(*registered));
  }
  return {};
}

}  // namespace

Result<RegisteredPtr> register_buffer(Team& team, const void* memory, size_t bytes, bool written) {
  if (bytes <= kCopyLimit) return RegisteredPtr();
  return team.memory().find(memory, bytes, written);
}

Result<void> register_memory(Team& team, Task& task) {
  if (task.small) return {};
  if (Result<void> registered = register_buffers(team, task); !registered) return registered;
  Result<RegisteredPtr> work = team.memory().ensure_buffer(
      team.runner().lanes().of(task.call).work,
      task.plan->program.work * task.arithmetic.accumulator, reduces(task.plan->shape.collective));
  if (!work) return work.error();
  task.work = std::move(*work);
  return {};
}

Result<RegisteredPtr> packed_space(Team& team, const Call& call, size_t bytes) {
  return team.memory().ensure_buffer(team.runner().lanes().of(call).packed, bytes, false);
}

}  // namespace weft::collective
