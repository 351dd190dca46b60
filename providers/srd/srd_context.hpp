// SPDX-License-Identifier: BSD-3-Clause
// The `srd` provider: the SRD engine behind the provider seam.
#pragma once

#include "lib/srd/engine.hpp"
#include "providers/software/machine_context.hpp"

namespace weft::srd_provider {

class SrdContext final : public software::MachineContext<srd::Engine, srd::QueuePair, srd::Config> {
 public:
  SrdContext(Ports ports, const srd::Config& config, const driver::DriverOptions& options,
             DeviceAttributes attributes)
      : MachineContext(std::move(ports), config, options, std::move(attributes)) {
    attributes_.paths = machine_.path_count();
  }
  std::optional<Gid> peer_address(uint32_t number) const override;
  std::vector<PathReport> paths(const Gid& address, QpNum number) const override;
};

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out, LoadModules modules);

}  // namespace weft::srd_provider
