// SPDX-License-Identifier: BSD-3-Clause
// Events of a channel: collecting them from the devices, taking and acknowledging them.
#pragma once

#include "lib/adapters/verbs/rdmacm/objects.hpp"
#include "weft/result.hpp"

namespace weft::rdmacm {

// All of these but open_channel() and complete(): under the channel's `turn`.

// The channel of connections of a device, made at the first use.
Result<CmChannel> channel_on(Channel& channel, Context& context);
void add_id(Channel& channel, Id& id, const CmId& cm);
void remove_id(Channel& channel, const CmId& cm);
void push(Channel& channel, std::unique_ptr<Event> event);
// Adds an event of the id without parameters.
void push(Channel& channel, Id& id, rdma_cm_event_type type, int status);
// Moves what the devices have to the queue, connecting queue pairs of ids on the way. Afterwards
// the channel's descriptor is readable only if the queue is not empty.
void collect(Channel& channel);
// Makes `ready` agree with the queue.
void update_ready(Channel& channel) noexcept;

// translate.cpp: what collect() does with an event of a device.
void translate(Channel& channel, Context& context, const CmEvent& event);

// A new channel; null: errno says why.
Channel* open_channel();
void close_channel(Channel* channel) noexcept;
// Of a synchronous id: waits for the event of the call and keeps it in rdma_cm_id::event. Others:
// 0.
int complete(Id& id);
// Whether events of the id wait in its channel.
bool has_queued_event(Id& id);
// Blocks until the program has acknowledged the events of the id that were reported.
void wait_for_acknowledgements(Id& id);
// Moves the id to another channel.
Result<void> move_id(Id& id, Channel& to);

}  // namespace weft::rdmacm
