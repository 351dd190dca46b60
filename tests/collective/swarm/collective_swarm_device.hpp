// SPDX-License-Identifier: BSD-3-Clause
// The clock of the collective swarm, and devices that use it.
#pragma once

#include <memory>
#include <vector>

#include "providers/roce/roce_context.hpp"
#include "providers/software/open.hpp"
#include "providers/srd/srd_context.hpp"

namespace weft::test {

inline constexpr Duration kPatience = Duration::from_ms(40);  // with silent peers

inline Instant virtual_now;
inline uint64_t looks = 0;  // reads of the clock since it was set

// A program that reads the clock repeatedly waits for time to pass.
inline Instant update_time() {
  constexpr uint64_t kManyLooks = 10'000;
  if (++looks > kManyLooks) virtual_now = virtual_now + Duration::from_us(1);
  return virtual_now;
}

inline void set_clock(Instant now) {
  virtual_now = now;
  looks = 0;
}

inline std::unique_ptr<transport::Port> next_port;  // of the device that is opened next

inline Result<std::shared_ptr<verbs::Context>> open_simulated(const verbs::DeviceSpec& spec) {
  software::OpenedPort opened;
  opened.ports.push_back(std::move(next_port));
  opened.name = "sim";
  const driver::DriverOptions alone{.single_thread = true};
  if (spec.provider == "roce") {
    roce::EngineConfig config;
    config.throttle = true;
    config.start = virtual_now;
    const DeviceAttributes attributes = software::describe(spec, opened, config.limits);
    return std::shared_ptr<verbs::Context>(
        new roce_provider::RoceContext(std::move(opened.ports), config, alone, attributes));
  }
  srd::Config config;
  config.start = virtual_now;
  config.dead_peer_timeout = kPatience;
  DeviceAttributes attributes = software::describe(spec, opened, config.limits);
  attributes.qp_type = QpType::srd;
  attributes.has_write_add = attributes.has_ordered = true;
  return std::shared_ptr<verbs::Context>(
      new srd_provider::SrdContext(std::move(opened.ports), config, alone, attributes));
}

inline void list_none(std::vector<DeviceListing>&, LoadModules) {}

}  // namespace weft::test
