// SPDX-License-Identifier: BSD-3-Clause
// Device strings taken apart: PROVIDER[+PORT[:WHERE]][,key=value...]. WHERE may hold an IPv6
// address in brackets. A key with a dot belongs to the layer before the dot.
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

// Takes the keys of one layer out of `options`: those that begin with "LAYER.", without that
// prefix.
std::vector<std::pair<std::string, std::string>> take_layer(
    std::vector<std::pair<std::string, std::string>>& options, std::string_view layer);

}  // namespace weft::verbs
