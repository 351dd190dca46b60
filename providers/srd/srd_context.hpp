// SPDX-License-Identifier: BSD-3-Clause
// The `srd` provider: the SRD engine behind the provider seam.
#pragma once

#include "lib/engine/srd/engine.hpp"
#include "providers/software/context.hpp"

namespace weft::srd {

class SrdContext final : public software::Context {
 public:
  SrdContext(std::unique_ptr<engine::Port> port, const engine::srd::Config& config,
             const driver::DriverOptions& options, DeviceAttributes attributes);
  Result<std::shared_ptr<verbs::Domain>> create_domain(const Device& device) override;
  std::optional<Gid> peer_address(uint32_t index) const override;

 private:
  engine::srd::Engine& engine_;  // the driver's
};

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out);

}  // namespace weft::srd
