// SPDX-License-Identifier: BSD-3-Clause
// `weft_sim run`: the same flows through the same network under each controller, in parallel, and
// what is written and printed of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/sim/flow/simulation.hpp"

namespace weft::bench {

struct RunCommand {
  std::string scenario;  // a TOML file, or else:
  std::string topology;
  std::string degraded;
  std::string flows;
  std::vector<std::string> controllers;  // empty: the scenario's, else hpcc
  std::vector<std::string> settings;     // key=value
  std::string until;
  uint64_t seed = 1;
  unsigned jobs = 0;  // 0: one per core
  std::string out;
  std::vector<double> buckets;  // upper ends, bytes
};

// A controller's run.
struct Outcome {
  sim::flow::Scheme scheme;
  sim::flow::RunResult result;
  double seconds = 0;  // of processor time
};

// All of a command's input and output, for the writers.
struct Comparison {
  RunCommand command;
  std::string title;
  sim::flow::Parameters parameters;
  std::vector<sim::flow::FlowSpec> flows;
  std::vector<double> buckets;  // upper ends
  std::vector<Outcome> outcomes;
};

// Returns the program's exit code; says on stderr what is wrong.
int command_run(const RunCommand& command);

// output.cpp
Result<void> write_results(const Comparison& comparison);
// table.cpp
void print_table(const Comparison& comparison);

// Slowdowns of one controller's finished flows, by size bucket (facts 6.1 a: lo < bytes <= hi).
struct Bucket {
  double low = 0;
  double high = 0;                // infinity in the last
  std::vector<double> slowdowns;  // sorted
  // Element floor(n p), at most the last; 0 if there is none.
  double percentile(double share) const;
};
std::vector<Bucket> slowdowns(const Comparison& comparison, const Outcome& outcome);

}  // namespace weft::bench
