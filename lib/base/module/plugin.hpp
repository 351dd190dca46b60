// SPDX-License-Identifier: BSD-3-Clause
// Plug-ins: shared objects that a user names by their path (cc=./mine.so). A plug-in exports one
// object by a symbol of the public header that it was compiled with; it needs no symbol of weft, so
// that it fits any program and each version with the same interface number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/result.hpp"

namespace weft::base {

// What a plug-in exports, for loading and for messages.
struct PluginKind {
  const char* symbol;         // "weft_controller"
  const char* macro;          // that defines it: "WEFT_CONTROLLER(kYours)"
  const char* header;         // "weft/congestion.hpp"
  uint32_t interface_number;  // of this weft; the exported object begins with its own
};

// True for a path, "./mine.so" or "mine.so"; names of what is built in do not end so.
inline bool is_plugin_path(std::string_view name) noexcept { return name.ends_with(".so"); }

// The exported object of the plug-in `path`, which is never unloaded; a path without a slash is in
// the current folder. Any thread. Errors: permission_denied (the process has more rights than its
// caller, AT_SECURE), not_found (no such file), not_supported (it is no plug-in of this kind, or
// for another version of the interface).
Result<const void*> load_plugin(const std::string& path, const PluginKind& kind);

}  // namespace weft::base
