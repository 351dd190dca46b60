// SPDX-License-Identifier: BSD-3-Clause
// The unreliable services. UC: SENDs and WRITEs of any length, delivered in order or dropped. UD:
// each request is one packet to the queue pair that it names, each packet that finds a receive is
// one message. Nothing is acknowledged, so a request completes when the port has taken its frames,
// and a local error stops the send queue only (SQE).
#pragma once

#include "lib/roce/message/send.hpp"
#include "lib/roce/state/engine_state.hpp"
#include "lib/transport/frame_builder.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

// requester.cpp: sends requests of `qp` while there is room and its rate permits.
Served send_unreliable(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                       Instant now) noexcept;
// Completes the requests whose frames the port took in the last transmit(). One that could not be
// sent fails when it is the oldest, and moves the queue pair to SQE.
void complete_transmitted(EngineState& engine, QueuePair& qp) noexcept;

namespace uc {
// uc.cpp: a request packet.
void on_request(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                const Frame& frame) noexcept;
}  // namespace uc

namespace ud {
// ud.cpp: why a request is invalid, or nullptr.
const char* invalid_reason(const QueuePair& qp, const SendRequest& request,
                           uint32_t length) noexcept;
// Where a request goes, with the Q_Key that it carries. `port` chooses the UDP source port for a
// flow label.
Datagram datagram(const QueuePair& qp, const SendRequest& request, Port& port) noexcept;
// Sends the request at the cursor. False: a local error.
bool send_datagram(EngineState& engine, QueuePair& qp, FrameBuilder& out, Instant now) noexcept;
// A SEND.
void on_datagram(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                 const Frame& frame) noexcept;
}  // namespace ud

}  // namespace weft::roce
