// SPDX-License-Identifier: BSD-3-Clause
// Whether requests can be posted, without posting one.
#pragma once

#include <span>

#include "lib/roce/state/engine_state.hpp"

namespace weft::roce {

// What Engine::post_send() would return for these requests. Found by the type of the engine
// (providers/software/machine_context.hpp).
PostStatus check_send(EngineState& engine, const QueuePair& qp,
                      std::span<const SendRequest> requests) noexcept;

}  // namespace weft::roce
