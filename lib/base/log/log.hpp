// SPDX-License-Identifier: BSD-3-Clause
// Writing to the log (weft/log.hpp). Not for the data path, and not under a device's lock: stderr
// may be a full pipe, and a sink is code of the application.
//
// spdlog would make libweft.so 214 KB and the start of every program 1.1 ms longer, before the
// first line (header-only spdlog 1.10 and fmt 9.1, gcc 12, one logger to stderr); it has no sink
// for a host program at that version.
#pragma once

#include <new>
#include <string>
#include <string_view>

#include "weft/log.hpp"

namespace weft::base {

// What a line is about; selects its level in WEFT_LOG.
enum class Subsystem : uint8_t { api, connect, roce, srd, port, module, collective, faults, verbs };
std::string_view name(Subsystem subsystem) noexcept;

// Whether lines of this level are wanted.
bool logs(Subsystem subsystem, LogLevel level) noexcept;

// Writes a line, wanted or not.
void write_line(Subsystem subsystem, LogLevel level, std::string_view text) noexcept;

// Where lines go without a sink: for a sink that passes lines on.
void write_to_stderr(const LogLine& line) noexcept;

// Writes the line text() if it is wanted, and memory permits.
template <class Text>
void log(Subsystem subsystem, LogLevel level, Text text) noexcept {
  if (!logs(subsystem, level)) return;
  try {
    write_line(subsystem, level, text());
  } catch (const std::bad_alloc&) {  // the line is lost
  }
}

// An error that a call of the public API returns. What only asks for another call is no line.
void log_refusal(const Error& error) noexcept;

// From now on lines of `subsystem` from `level` on are wanted: for variables that are older than
// WEFT_LOG.
void log_from(Subsystem subsystem, LogLevel level) noexcept;

}  // namespace weft::base
