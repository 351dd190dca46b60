// SPDX-License-Identifier: BSD-3-Clause
// The log: a line for what went wrong or differs from what was asked for (a refusal, a fall-back, a
// peer that does not answer, a wrong key), with the objects, the numbers and what to do. The data
// path logs nothing. Not included by weft.hpp.
//
// Lines go to stderr, or to the sink of the program. The environment variable WEFT_LOG selects
// them: LEVEL[,SUBSYSTEM=LEVEL]...[,json], for example `info,roce=debug`; json writes each line as
// a JSON object. Levels: debug, info, warning (the default), error, off. What a call returns as an
// Error, or a completion as its status, is at level info: the program has it already.
// Subsystems: api (errors of calls), connect (peers that a Listener refuses), roce, srd, port (what
// a port does without, since the machine lacks it), module, collective, faults (those that a device
// string asks for), verbs (the drop-in libibverbs and librdmacm).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "weft/result.hpp"
#include "weft/wr.hpp"

namespace weft {

// How urgent a line is. `off` is for levels only: no lines.
enum class LogLevel : uint8_t { debug, info, warning, error, off };
// The name as spelled above.
std::string_view name(LogLevel level) noexcept;

// A line of the log. The texts are valid during the call of the sink.
struct LogLine {
  LogLevel level = LogLevel::info;
  std::string_view subsystem{};  // "roce"
  std::string_view text{};       // one sentence, no newline
};

// Takes lines, from any thread that calls the library and from its own; several at a time. It must
// neither throw nor call the library.
using LogSink = std::function<void(const LogLine&)>;

// From now on lines go to `sink`; an empty one stands for stderr. Another thread may still be in
// the sink before, which is therefore kept until the process ends. Error: no_memory.
Result<void> set_log_sink(LogSink sink);

// Replaces the levels of WEFT_LOG by `levels`, in the same form. Error: invalid_argument, and
// nothing has changed.
Result<void> set_log_levels(std::string_view levels);

// What such a status usually comes from and what to do: a sentence without a final dot.
std::string_view reason(Status status) noexcept;

}  // namespace weft
