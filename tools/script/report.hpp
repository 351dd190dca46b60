// SPDX-License-Identifier: BSD-3-Clause
// What a run of scripts says: lines for people, JSON, and JUnit XML for CI systems.
#pragma once

#include <string>
#include <vector>

#include "tools/script/play.hpp"

namespace weft::script {

// One script, played once.
struct Attempt {
  std::string script;  // the file
  std::string title;   // its first comment, which names its rules
  std::string psn;     // the first PSN
  Played played;
  double seconds = 0;
};

struct Report {
  std::vector<Attempt> attempts;
  // Scripts. One that failed with any first PSN has failed, and one is skipped only if it did not.
  size_t passed = 0, failed = 0, skipped = 0;
};

std::string_view name(Verdict verdict);
// The rules that a title names: "C-DUP-24 C-ACK-33"; "" if none.
std::string rules_of(const std::string& title);
// "dup/ack" of ".../dup/ack.script".
std::string short_name(const std::string& file);

void print_attempt(const Attempt& row, bool trace);
// `wire` and `end`: device string of the peer, GID of the live end; empty: the engine.
void print_json(const Report& report, const std::string& wire, const std::string& end);
// Errors: io_error.
Result<void> write_junit(const Report& report, const std::string& file);

}  // namespace weft::script
