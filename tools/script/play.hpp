// SPDX-License-Identifier: BSD-3-Clause
// Plays a script on a stage, step by step, up to the first failed step.
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
  std::vector<std::string> trace;  // packets and completions, with times
};

struct PlayOptions {
  Psn peer_first{1000}, end_first{0xABCDEF};
  // Time limit of answers without `within`.
  Duration patience = Duration::from_s(10);
  // Tolerance of times if time is not virtual.
  Duration slack = Duration::from_ms(200);
};

Played play(const Script& script, Stage& stage, const PlayOptions& options);

}  // namespace weft::script
