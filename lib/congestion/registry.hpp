// SPDX-License-Identifier: BSD-3-Clause
// Controllers by their canonical names, and presets made from a name, a network and the parameters
// that differ from the defaults.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/congestion/controller.hpp"
#include "weft/result.hpp"

namespace weft::congestion {

// Every controller, in the order in which they are listed to people.
std::span<const Kind* const> kinds() noexcept;

// What a preset must know of the network.
struct Conditions {
  Rate line;     // of the flow's NIC
  Duration rtt;  // T
  Rate network;  // of the NICs of the network: W0 = T x this; `line` if 0
};

// A parameter that is not the default: "eta" of "hpcc".
struct Setting {
  std::string_view parameter;
  double value;
};

// A preset of "hpcc" or "dcqcn-nic+win". An unknown name or parameter is an error that lists the
// valid ones; a value that is not finite or is negative is one too.
Result<Preset> make_preset(std::string_view name, const Conditions& conditions,
                           std::span<const Setting> settings = {});

// The kind of a name without its suffix, and whether the suffix is there.
Result<const Kind*> find_kind(std::string_view name, bool* with_window);

}  // namespace weft::congestion
