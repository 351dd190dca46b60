// SPDX-License-Identifier: BSD-3-Clause
// The `roce` provider: the RoCE engine behind the provider seam, and the connection manager at its
// queue pair 1, which is made when the first channel is.
#pragma once

#include "lib/cm/agent.hpp"
#include "lib/engine/engine.hpp"
#include "providers/software/machine_context.hpp"

namespace weft::roce {

class RoceContext final
    : public software::MachineContext<engine::Engine, engine::QueuePair, engine::EngineConfig> {
 public:
  using MachineContext::MachineContext;
  ~RoceContext() override;

  Result<std::shared_ptr<verbs::CmChannel>> create_cm_channel(const Device& device) override;
  Result<std::shared_ptr<verbs::Xrc>> create_xrc(const Device& device, uint32_t engine) override;
  std::vector<Counter> counters() const override;

  // For channels. `call` gets the agent and the time, under the driver's lock; what it wants sent
  // leaves before this returns.
  template <class Call>
  auto with_agent(Call call) {
    driver::Holder hold(driver_.lock());
    auto result = call(*agent_, driver_.now());
    machine_.services_changed();
    driver_.after_control();
    return result;
  }
  bool forked() const noexcept { return driver_.forked(); }
  // False: nothing happens unless the application calls.
  bool watch_over() noexcept { return driver_.watch_over(); }
  uint32_t random_number();

 private:
  base::SecureRandom random_;  // of the agent; under the lock
  std::unique_ptr<cm::Agent> agent_;
};

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out);

}  // namespace weft::roce
