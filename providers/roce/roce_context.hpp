// SPDX-License-Identifier: BSD-3-Clause
// The `roce` provider: the RoCE engine behind the provider seam.
#pragma once

#include "lib/engine/engine.hpp"
#include "providers/software/machine_context.hpp"

namespace weft::roce {

using RoceContext =
    software::MachineContext<engine::Engine, engine::QueuePair, engine::EngineConfig>;

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out);

}  // namespace weft::roce
