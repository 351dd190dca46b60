// SPDX-License-Identifier: BSD-3-Clause
// Runs rules in processes of their own: one per rank, which load the plug-in and run one rule after
// another. When a rank fails, hangs or dies, all are replaced before the next rule.
#pragma once

#include <string>
#include <vector>

#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {

struct Verdict {
  std::string rule;
  State state = State::passed;
  std::string text;
  std::array<double, kMaxFigures> figures{};
};

// What a version of the plug-in is: usable, without a device, or broken at init().
struct VersionReport {
  int version = 0;
  bool has_device = false;
  std::string text;     // why not
  std::string devices;  // names and speeds
  std::vector<Verdict> verdicts;

  bool passed() const;
};

VersionReport run_version(const Settings& settings, int version,
                          const std::vector<const Rule*>& rules);

}  // namespace weft::nccl_check
