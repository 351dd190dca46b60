// SPDX-License-Identifier: BSD-3-Clause
// See completion_channel.hpp.
#include "providers/ibverbs/queue/completion_channel.hpp"

#include <fcntl.h>

namespace weft::ibverbs {

Result<void> check(const CompletionQueueOptions& options) {
  if (!options.timestamps) return {};
  return Error{Code::not_supported,
               "provider ibverbs has no completion timestamps: leave "
               "CompletionQueueOptions::timestamps out, or open a roce or srd device"};
}

Owned<ibv_comp_channel> make_channel(const Context& context) {
  const Library& library = context.library();
  Owned<ibv_comp_channel> channel =
      own(library.create_comp_channel(context.raw()), library.destroy_comp_channel);
  if (channel != nullptr) fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

void read_events(const Context& context, ibv_comp_channel& channel) noexcept {
  const Library& library = context.library();
  ibv_cq* cq = nullptr;
  void* own_context = nullptr;
  while (library.get_cq_event(&channel, &cq, &own_context) == 0) library.ack_cq_events(cq, 1);
}

}  // namespace weft::ibverbs
