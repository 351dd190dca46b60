// SPDX-License-Identifier: BSD-3-Clause
// Plays a script on a stage, step by step, up to the first that does not go as written.
#pragma once

#include <string>
#include <vector>

#include "tools/script/stage.hpp"

namespace weft::script {

enum class Verdict : uint8_t { passed, failed, skipped };

struct Played {
  Verdict verdict = Verdict::passed;
  size_t line = 0;                 // of the step that failed
  std::string why;                 // one or more lines of text
  std::vector<std::string> trace;  // what was said and heard, and when
};

struct PlayOptions {
  Psn peer_first{1000}, end_first{0xABCDEF};
  // How long an answer may take that the script gives no time for.
  Duration patience = Duration::from_s(10);
  // How much longer than a script says something may take, where time is not virtual.
  Duration slack = Duration::from_ms(200);
};

Played play(const Script& script, Stage& stage, const PlayOptions& options);

}  // namespace weft::script
