// SPDX-License-Identifier: BSD-3-Clause
// The `roce` provider: the RoCE engine behind the provider seam.
#pragma once

#include "lib/engine/engine.hpp"
#include "providers/software/context.hpp"

namespace weft::roce {

class RoceContext final : public software::Context {
 public:
  RoceContext(std::unique_ptr<engine::Port> port, const engine::EngineConfig& config,
              const driver::DriverOptions& options, DeviceAttributes attributes);
  Result<std::shared_ptr<verbs::Domain>> create_domain(const Device& device) override;

 private:
  engine::Engine& engine_;  // the driver's
};

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out);

}  // namespace weft::roce
