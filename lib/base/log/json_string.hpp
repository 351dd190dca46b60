// SPDX-License-Identifier: BSD-3-Clause
// A string of JSON, for the few objects that the library itself writes.
#pragma once

#include <string>
#include <string_view>

namespace weft::base {

// Appends `text` in quotes. Only ASCII: texts that were truncated or come from a peer may not be
// UTF-8.
inline void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    const auto byte = static_cast<unsigned char>(c);
    out += byte < ' ' ? ' ' : byte >= 0x7f ? '?' : c;
  }
  out += '"';
}

}  // namespace weft::base
