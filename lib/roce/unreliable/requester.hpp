// SPDX-License-Identifier: BSD-3-Clause
// What UC and UD share: nothing comes back, so a request is done when the port has taken its
// frames, and an error of ours stops the sending half only.
#pragma once

#include "lib/roce/engine.hpp"
#include "lib/roce/message/receive.hpp"

namespace weft::roce {

// Sends requests of `qp` while there is room.
Served send_unreliable(Engine& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum) noexcept;

// Completes the requests whose frames left with the last transmit(). One that could not be sent
// fails when it is the oldest, and puts the queue pair into SQE.
void complete_handed(Engine& engine, QueuePair& qp) noexcept;

// The receive in use cannot be used: it fails, and the queue pair goes to ERR.
void fail_receive(Engine& engine, QueuePair& qp) noexcept;

}  // namespace weft::roce
