// SPDX-License-Identifier: BSD-3-Clause
// Modules: shared objects KIND_NAME.so ("port_dpdk.so"), each of which brings one extension and the
// libraries that it needs. They are loaded at the first use of the extension and never unloaded,
// since their libraries have threads. A module uses the internal symbols of libweft.so, which
// change with every version, so that it fits the version that it was built for and no other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/result.hpp"

namespace weft::base {

// Counts changes of what modules see, between two versions of weft.
inline constexpr uint32_t kModuleInterface = 1;

// In each copy of weft in a process; its address tells them apart.
extern const char library_identity;

// The symbol weft_module of a module. `interface_number` and `version` keep their places: they are
// read before it is known that the module fits.
struct Module {
  uint32_t interface_number = kModuleInterface;
  const char* version = nullptr;            // of the weft that it was built for: "0.1.0"
  const char* library = &library_identity;  // the copy of weft that it is bound to
  const char* name = nullptr;               // "port_dpdk"
  // A transport::PortKind of a module "port", a verbs::Provider of a "provider".
  const void* (*extension)() = nullptr;
};

// A module, and for messages what brings it.
struct ModuleName {
  std::string_view kind;     // "port", "provider"
  std::string_view name;     // "dpdk"
  std::string_view package;  // the Debian package; empty: none is known
  // "libdpdk: apt-get install libdpdk-dev": what was missing where this weft was built, or empty.
  std::string_view missing = {};

  std::string file() const { return std::string(kind) + "_" + std::string(name) + ".so"; }
};

// The folders with modules, in the order of the search: those of the environment variable
// WEFT_MODULE_PATH, separated by colons, unless the process has more rights than its caller
// (AT_SECURE); then weft/modules beside libweft.so.
std::vector<std::string> module_folders();

// The extension of a module, which is loaded if it was not yet. Any thread. Errors: not_found (in
// no folder), not_supported (it cannot be loaded, or is for another weft); the message says why and
// what to install.
Result<const void*> load_module(const ModuleName& module);

// The extension of a module that load_module() has loaded, or null.
const void* loaded_module(const ModuleName& module);

// Loads nothing: why a module that is not loaded cannot be used yet.
std::string unloaded_reason(const ModuleName& module);

// The names of the modules of `kind` that lie in the folders, sorted.
std::vector<std::string> module_names(std::string_view kind);

}  // namespace weft::base
