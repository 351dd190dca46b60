// SPDX-License-Identifier: BSD-3-Clause
// Opening the port of a software provider: the one named in the device string, wrapped in the
// middleware that its keys ask for, in the order they are written. A device with several engines
// has one such port for each.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/transport/machine.hpp"
#include "lib/transport/port.hpp"
#include "lib/verbs/device_spec.hpp"

namespace weft::software {

// A key of the provider itself: takes the value, or says what is wrong with it.
struct OwnKey {
  std::string_view name;
  std::function<Result<void>(const std::string& value)> take;
};

// An OwnKey of a flag: 0 or 1.
OwnKey flag_key(std::string_view name, bool& target);
// An OwnKey of a number from `smallest` to `largest`.
OwnKey number_key(std::string_view name, uint32_t& target, uint32_t smallest, uint32_t largest);

inline constexpr bool kNoTelemetry = false;
inline constexpr uint32_t kOneEngine = 1;

struct OpenedPort {
  std::vector<std::unique_ptr<transport::Port>> ports;  // one for each engine, alike
  std::string name;                                     // "udp"

  const transport::Port& first() const { return *ports.front(); }
};

// `own` takes its keys out of the device string; an unknown key is an error that lists the valid
// ones. `udp_port` is where frames of this protocol go. `telemetry`, which a key of `own` may set:
// whether the port is to carry it. `rails`, likewise: what else stands behind PORT: for a device
// with several addresses. `engines`, likewise: how many share the address.
Result<OpenedPort> open_port(const verbs::DeviceSpec& spec, const std::vector<OwnKey>& own,
                             uint16_t udp_port, const bool& telemetry = kNoTelemetry,
                             const std::vector<std::string>& rails = {},
                             const uint32_t& engines = kOneEngine);
// The OwnKey engines=, and what it may not be with.
OwnKey engines_key(uint32_t& engines);
Result<void> check_engines(uint32_t engines, bool single_thread);

// What the port and the engine's limits say about the device.
DeviceAttributes describe(const verbs::DeviceSpec& spec, const OpenedPort& opened,
                          const transport::Limits& limits);

// A row for each port kind that `provider` can be bound to.
void list_ports(const std::string& provider, uint16_t udp_port, std::vector<DeviceListing>& out);

}  // namespace weft::software
