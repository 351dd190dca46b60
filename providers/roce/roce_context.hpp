// SPDX-License-Identifier: BSD-3-Clause
// The `roce` provider: our engine bound to a port by a driver, behind the provider seam.
#pragma once

#include <atomic>

#include "lib/driver/driver.hpp"
#include "lib/verbs/provider.hpp"

namespace weft::roce {

class RoceContext : public verbs::Context {
 public:
  RoceContext(std::unique_ptr<engine::Port> port, const engine::EngineConfig& config,
              const driver::DriverOptions& options, DeviceAttributes attributes);

  Result<void> start() { return driver_.start(); }
  driver::Driver& driver() noexcept { return driver_; }
  bool single_thread() const noexcept { return single_thread_; }

  const DeviceAttributes& attributes() const noexcept override { return attributes_; }
  Result<std::shared_ptr<verbs::Domain>> create_domain(const Device& device) override;
  Result<std::shared_ptr<verbs::Cq>> create_cq(const Device& device,
                                               const CompletionQueueOptions& options) override;
  void progress() noexcept override { driver_.progress(); }
  Instant now() const noexcept override { return driver_.now(); }
  int event_fd() const noexcept override { return driver_.event_fd(); }
  std::optional<AsyncEvent> next_event() override;
  std::vector<Counter> counters() const override;

 private:
  const bool single_thread_;
  DeviceAttributes attributes_;
  mutable driver::Driver driver_;
  std::atomic<uint32_t> next_domain_{1};
};

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out);

}  // namespace weft::roce
