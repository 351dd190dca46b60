// SPDX-License-Identifier: BSD-3-Clause
// Jobs on the packet fabric: a collective operation that hosts repeat, as flows and tasks of
// lib/sim. This room is the only one that knows both: the schedule is that of lib/collective,
// proven like every other, and each put becomes a message of the connection between its two ranks,
// each other step work without duration. So a message is sent when the data that it needs has
// arrived, as the schedule says.
//
//   Result<Job> job = add_job(spec, topology, flows, tasks);
//   Result<RunResult> result = run(topology, scheme, flows, {.tasks = &tasks});
//   JobFigures figures = figures_of(*job, tasks, *result);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/collective/plan/algorithm.hpp"
#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scenario/job_spec.hpp"

namespace weft::job {

// What a job was translated into.
struct Job {
  sim::scenario::JobSpec spec;
  const collective::Algorithm* algorithm = nullptr;
  collective::Shape shape;  // of one bucket
  double element = 1, accumulator = 1;
  uint64_t bytes = 0;  // of the larger buffer of a rank, as elements and buckets divide it
  std::string proof;   // "proven", or why it is not
  // Its flows and tasks are consecutive.
  uint32_t first_flow = 0, flows = 0;
  uint32_t first_task = 0, tasks = 0;
  // By step: the task of each rank whose end is the end of the step there.
  std::vector<std::vector<uint32_t>> step_ends;
  // By step and bucket: the tasks of one operation are [first, last).
  struct Operation {
    uint32_t step = 0;
    uint32_t first = 0, last = 0;
  };
  std::vector<Operation> operations;

  uint32_t ranks() const { return static_cast<uint32_t>(spec.hosts.size()) / spec.nics; }
};

// Adds the flows and the tasks of a job. Fails on an operation, algorithm or type that is not
// known, on a schedule that is not proven, on more than 20 million tasks; the message begins with
// the place of the job.
Result<Job> add_job(const sim::scenario::JobSpec& spec, const sim::fabric::Topology& topology,
                    std::vector<sim::flow::FlowSpec>& flows, sim::flow::TaskGraph& tasks);

// What the job did in a run. Times in ns; a step that did not end has none.
struct JobFigures {
  std::vector<int64_t> step_ns;  // of the steps that ended, in order: from the end of the last one
  int64_t median_step_ns = 0;    // 0: no step ended
  int64_t communication_ns = 0;  // of the median step: from the first message to the end, summed
                                 // over buckets
  int64_t exposed_ns = 0;        // of the median step: what is not hidden by computation
  double algorithm_gbytes_per_s = 0;  // buffer / communication
  double bus_gbytes_per_s = 0;        // times the operation's bus factor
  uint64_t unfinished = 0;            // tasks
  int64_t begin_ns = 0, end_ns = 0;   // of all its steps
};
JobFigures figures_of(const Job& job, const sim::flow::TaskGraph& tasks,
                      const sim::flow::RunResult& result);

}  // namespace weft::job
