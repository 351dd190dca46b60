// SPDX-License-Identifier: BSD-3-Clause
// `weft_sim run`: the same flows through the same network under each controller, in parallel, and
// what is written and printed of it. plan.cpp reads the input, batch.cpp runs it, output.cpp and
// page.cpp write the files, table.cpp prints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/job/difference.hpp"
#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scenario/scenario.hpp"

namespace weft::bench {

struct RunCommand {
  std::string scenario;  // a TOML file, or else:
  std::string topology;
  std::string degraded;
  std::string flows;
  std::string events;                    // of links
  std::vector<std::string> controllers;  // empty: the scenario's, else hpcc
  std::vector<std::string> settings;     // key=value
  std::vector<std::string> words;        // cc=NAME,NAME or key=value, behind the scenario
  std::vector<std::string> sweeps;       // key=value,value...
  std::string until;
  uint64_t seed = 1;
  std::string seeds;  // "1..5"; empty: `seed` alone
  unsigned jobs = 0;  // 0: one per core
  std::string out;
  std::vector<double> buckets;  // upper ends, bytes
  bool series = false;          // write series.csv
  std::vector<uint32_t> series_flows;
  std::string pcap;
  std::vector<uint32_t> pcap_flows;
};

// A job of the scenario in one run.
struct JobOutcome {
  job::JobFigures figures;
  job::FlowLevel level;
  job::Difference difference;
};

// One run: a controller, perhaps with a swept value.
struct Outcome {
  std::string label;  // "hpcc", "hpcc[hpcc.eta=0.9]"
  sim::flow::Scheme scheme;
  sim::flow::RunResult result;
  double seconds = 0;            // of processor time
  std::vector<JobOutcome> jobs;  // as Comparison::jobs
};

// All runs of one seed: the same network and flows.
struct Comparison {
  RunCommand command;
  uint64_t seed = 1;
  sim::scenario::Scenario scenario;
  sim::flow::Parameters parameters;  // without swept values
  sim::flow::RunOptions options;
  std::vector<job::Job> jobs;
  std::shared_ptr<const sim::flow::TaskGraph> tasks;  // nullptr without jobs
  std::vector<Outcome> outcomes;
};

// Returns the program's exit code; says on stderr what is wrong.
int command_run(const RunCommand& command);
// The same for the life of one flow, under each controller (explain.cpp).
int command_explain(const RunCommand& command, uint32_t flow, bool json);

Result<std::vector<Comparison>> plan(const RunCommand& command);
// jobs.cpp: translates the jobs of the scenario, whose flows it adds; after a run, works out what
// each did.
Result<void> add_jobs(Comparison& comparison);
// The flow is a connection of a job; these come after all others.
bool is_of_job(const Comparison& comparison, size_t flow);
void compare_jobs(const Comparison& comparison, Outcome& outcome);
void print_jobs(const Comparison& comparison, const Outcome& outcome);
// Jain's index of the progress of jobs: 1 if sharing the network slowed all of them alike.
double fairness_of_jobs(const Outcome& outcome);
Result<void> run_batch(std::vector<Comparison>& comparisons, unsigned jobs);
Result<void> write_results(const Comparison& comparison, const std::string& folder);
Result<void> write_page(const std::vector<Comparison>& comparisons, const std::string& folder);
void print_tables(const std::vector<Comparison>& comparisons);

// Slowdowns of the finished flows, by size bucket (HPCC simulator: lo < bytes <= hi); the last
// bucket is all of them. Flows that start within metrics.warm_up_ns do not count.
struct Bucket {
  double low = 0;
  double high = 0;                // infinity in the last
  std::vector<double> slowdowns;  // sorted
  // Element floor(n p), at most the last; 0 if there is none.
  double percentile(double share) const;
  std::string name() const;
};
std::vector<Bucket> slowdowns(const Comparison& comparison, const Outcome& outcome);
size_t finished(const Outcome& outcome);

// Completion times of the finished flows that began after the warm-up, in us; zeros without any.
struct Times {
  double first = 0;
  double p50 = 0;
  double p99 = 0;
  double last = 0;
};
Times completion_times(const Comparison& comparison, const Outcome& outcome);

// Payload of the finished flows, from the first start to the last end of them.
double goodput_gbps(const Comparison& comparison, const Outcome& outcome);

// Jain's index of the goodput of flows with the same busiest link, 1 if all got the same; over the
// links that two or more flows share: the mean by flows, and the least. Flows that are not there at
// the same time count alike, so it says most where they are.
struct Fairness {
  double mean = 1;
  double least = 1;
  size_t links = 0;
};
Fairness fairness(const Comparison& comparison, const Outcome& outcome);

}  // namespace weft::bench
