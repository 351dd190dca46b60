// SPDX-License-Identifier: BSD-3-Clause
// What completion queues of every kind have of a device: a channel each, by which it wakes who
// sleeps on the queue.
#pragma once

#include "providers/ibverbs/context/ibverbs_context.hpp"

namespace weft::ibverbs {

// Error: not_supported, of what no queue of this provider has.
Result<void> check(const CompletionQueueOptions& options);

// A channel whose events are read without waiting. Null (errno says why) if there is none.
Owned<ibv_comp_channel> make_channel(const Context& context);

// Reads pending events. Counts each, since a queue is destroyed only when all are acknowledged.
void read_events(const Context& context, ibv_comp_channel& channel) noexcept;

}  // namespace weft::ibverbs
