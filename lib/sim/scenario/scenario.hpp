// SPDX-License-Identifier: BSD-3-Clause
// A scenario: network, flows, controllers and parameters, complete. From a TOML file (the shipped
// ones are in scenarios/, scenarios/README.md describes every field) or put together by the caller.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scenario/job_spec.hpp"
#include "lib/sim/scenario/workload.hpp"
#include "lib/sim/scheme/parameters.hpp"
#include "weft/result.hpp"

namespace weft::sim::scenario {

struct Scenario {
  std::string title;
  fabric::Topology topology;
  FlowList flows;
  flow::TaskGraph tasks;  // of flows that wait for others; jobs are not in it
  std::vector<JobSpec> jobs;
  std::vector<fabric::LinkChange> link_changes;
  std::vector<std::string> controllers;
  std::vector<std::pair<std::string, std::string>> settings;  // key, value
  std::vector<std::string> sweeps;                            // key=value,value...
  std::optional<int64_t> until_ns;
  std::vector<double> buckets;  // upper ends of the size buckets
};

// `name` is a TOML file, or the name (without .toml) of one that comes with weft. What the file
// names is looked for beside it, then among what comes with weft
// (lib/base/installed/scenario_file.hpp). Random flows are drawn with `seed`: the same file and
// seed give the same scenario. An error names the file, the line, the key and the reason.
Result<Scenario> read_scenario(const std::string& name, uint64_t seed);
// The same of the text of such a file; files that it names are looked for from the current folder.
Result<Scenario> parse_scenario(const std::string& text, uint64_t seed);

// The options of a run with `seed`, of which the scenario and the parameters have a part. The
// scenario must outlive them: the tasks of flows that wait for others are its own.
flow::RunOptions run_options(const Scenario& scenario, const flow::Parameters& parameters,
                             uint64_t seed);

}  // namespace weft::sim::scenario
