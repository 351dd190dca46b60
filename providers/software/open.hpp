// SPDX-License-Identifier: BSD-3-Clause
// Opens the port that a device string names, wrapped in the middleware that its keys name, in the
// order in which they are written. A device with several engines has one such port per engine.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/transport/machine.hpp"
#include "lib/transport/port.hpp"
#include "lib/verbs/device_spec.hpp"
#include "lib/verbs/provider.hpp"

namespace weft::software {

// A key of the provider: parses the value, or returns an error.
struct OwnKey {
  std::string_view name;
  std::function<Result<void>(const std::string& value)> take;
};

// The key of a flag: 0 or 1.
OwnKey flag_key(std::string_view name, bool& target);
// The key of a number from `smallest` to `largest`.
OwnKey number_key(std::string_view name, uint32_t& target, uint32_t smallest, uint32_t largest);

inline constexpr bool kNoTelemetry = false;
inline constexpr uint32_t kOneEngine = 1;

struct OpenedPort {
  std::vector<std::unique_ptr<transport::Port>> ports;  // one per engine, of one kind
  std::string name;                                     // "udp"

  const transport::Port& first() const { return *ports.front(); }
};

// `own`: the keys of the provider; an unknown key is an error that lists the valid ones.
// `udp_port`: the UDP destination port of the protocol. `telemetry`, `rails` and `engines` are
// references because keys of `own` may set them: whether the port carries telemetry, the further
// WHEREs of a device with several addresses, and the number of engines that share the address.
Result<OpenedPort> open_port(const verbs::DeviceSpec& spec, const std::vector<OwnKey>& own,
                             uint16_t udp_port, const bool& telemetry = kNoTelemetry,
                             const std::vector<std::string>& rails = {},
                             const uint32_t& engines = kOneEngine);
// The key engines=, and the check of its combinations.
OwnKey engines_key(uint32_t& engines);
Result<void> check_engines(uint32_t engines, bool single_thread);

// The attributes of a device, from its port and the engine's limits.
DeviceAttributes describe(const verbs::DeviceSpec& spec, const OpenedPort& opened,
                          const transport::Limits& limits);

// Appends an entry for each kind of port, with the provider `provider`.
void list_ports(const std::string& provider, uint16_t udp_port, std::vector<DeviceListing>& out,
                LoadModules modules);

}  // namespace weft::software
