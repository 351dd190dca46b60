// SPDX-License-Identifier: BSD-3-Clause
// The unreliable-connection service: SENDs and WRITEs of any length, in order or not at all. What
// leaves is message_send.hpp and unreliable.cpp; here is what arrives.
#pragma once

#include "lib/roce/engine.hpp"

namespace weft::roce::uc {

void on_request(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                const Frame& frame) noexcept;

}  // namespace weft::roce::uc
