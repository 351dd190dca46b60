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

// Every controller: the built-in ones by file name, then those of add_controller().
std::span<const Kind* const> kinds() noexcept;

// The properties of the network that a preset depends on.
struct Conditions {
  Rate line;                    // of the flow's NIC
  Duration rtt;                 // T
  Rate network;                 // of the NICs of the network: W0 = T x this; `line` if 0
  double packet_bytes = 0;      // a full packet on the wire; 0: unknown
  double payload_bytes = 0;     // its payload; 0: unknown
  bool drops = false;           // full queues drop packets instead of trimming them
  bool software_hosts = false;  // the hosts are processes, whose own delay varies
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
// The same of a kind that need not be registered, and that the preset must not outlive.
Result<Preset> make_preset(const Kind& kind, bool with_window, const Conditions& conditions,
                           std::span<const Setting> settings = {});

// True if parameters named "NAME.parameter" apply to `kind`: its own name, or a part of it (nscc
// for nscc+rccc).
bool takes_parameters_of(const Kind& kind, std::string_view name) noexcept;

// The kind of a name without its suffix, and whether the suffix is there. "./mine.so" is the path
// of a shared object (WEFT_CONTROLLER of weft/congestion.hpp), which is loaded.
Result<const Kind*> find_kind(std::string_view name, bool* with_window);

// "tortoise+win" of the kind tortoise.
std::string full_name(const Kind& kind, bool with_window);
// The full name of a kind that is found: "tortoise+win" for "./mine.so+win". Other names stay.
Result<std::string> canonical_name(std::string_view name);

}  // namespace weft::congestion
