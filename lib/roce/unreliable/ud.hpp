// SPDX-License-Identifier: BSD-3-Clause
// The unreliable-datagram service: each request is one packet to the queue pair that it names, and
// each packet that finds a receive is one message. No order, no answer.
#pragma once

#include "lib/roce/engine.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame_builder.hpp"

namespace weft::roce::ud {

// send.cpp: why a request cannot be posted, or nullptr.
const char* invalid_reason(const QueuePair& qp, const SendRequest& request,
                           uint32_t length) noexcept;
// Where a request goes, with the Q_Key that it carries. `source_port` for a path that asks for one.
Datagram datagram(const QueuePair& qp, const SendRequest& request, Port& port) noexcept;
// Sends the request at the cursor. False: a local error.
bool send_datagram(Engine& engine, QueuePair& qp, FrameBuilder& out) noexcept;

// receive.cpp: a SEND.
void on_datagram(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                 const Frame& frame) noexcept;

}  // namespace weft::roce::ud
