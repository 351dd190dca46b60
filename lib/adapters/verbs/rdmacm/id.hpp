// SPDX-License-Identifier: BSD-3-Clause
// The life of an id, and its addresses.
#pragma once

#include "lib/adapters/verbs/rdmacm/addresses.hpp"
#include "lib/adapters/verbs/rdmacm/objects.hpp"

namespace weft::rdmacm {

// A new id in a channel, or, with null, in a channel of its own. Null: errno says why.
Id* new_id(Channel* channel, void* context, rdma_port_space ps, ibv_qp_type type);
// The id of a connection request to `listener`. Under the `turn` of the listener's channel. Null:
// no memory or descriptor for it; the request is to be rejected.
Id* new_request(Id& listener, Context& context, const CmEvent& request);
// Gives the id a device.
void set_context(Id& id, Context& context);
// Makes the id of weft on the device of the id, with the port that the id has been bound to.
Result<void> create_on_device(Id& id);

// The id is not going to listen: what came to its port is rejected.
void stop_listening_early(Id& id);

inline sockaddr* source_of(Id& id) { return &id.id.route.addr.src_addr; }
inline sockaddr* destination_of(Id& id) { return &id.id.route.addr.dst_addr; }

}  // namespace weft::rdmacm
