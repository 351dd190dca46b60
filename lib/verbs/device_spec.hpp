// SPDX-License-Identifier: BSD-3-Clause
// Parsing of device strings: PROVIDER[+PORT[:WHERE]][,key=value...]. WHERE may be an IPv6 address
// in brackets. A key with a dot belongs to the layer before the dot.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/result.hpp"

namespace weft::verbs {

struct DeviceSpec {
  std::string text;                                          // as given
  std::string provider;                                      // "roce"
  std::string port;                                          // "udp", empty if none was named
  std::string where;                                         // "lo", without brackets
  std::vector<std::pair<std::string, std::string>> options;  // in order
};

Result<DeviceSpec> parse_device_spec(std::string_view text);

// Removes the keys that begin with "LAYER." from `options` and returns them without that prefix.
std::vector<std::pair<std::string, std::string>> take_layer(
    std::vector<std::pair<std::string, std::string>>& options, std::string_view layer);

}  // namespace weft::verbs
