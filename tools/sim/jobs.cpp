// SPDX-License-Identifier: BSD-3-Clause
// The jobs of a scenario: from descriptions to flows and tasks before the runs, to figures and
// reasons after them.
#include <cstdio>

#include "tools/sim/command_run.hpp"

namespace weft::bench {

Result<void> add_jobs(Comparison& comparison) {
  sim::scenario::Scenario& scenario = comparison.scenario;
  if (scenario.jobs.empty() && scenario.tasks.tasks.empty()) return {};
  const auto tasks = std::make_shared<sim::flow::TaskGraph>(std::move(scenario.tasks));
  for (const sim::scenario::JobSpec& spec : scenario.jobs) {
    Result<job::Job> job = job::add_job(spec, scenario.topology, scenario.flows, *tasks);
    if (!job) return job.error();
    comparison.jobs.push_back(std::move(*job));
  }
  comparison.tasks = tasks;
  return {};
}

bool is_of_job(const Comparison& comparison, size_t flow) {
  return !comparison.jobs.empty() && flow >= comparison.jobs.front().first_flow;
}

void compare_jobs(const Comparison& comparison, Outcome& outcome) {
  const sim::fabric::Topology& topology = comparison.scenario.topology;
  const job::Compared run{topology, outcome.scheme, comparison.scenario.flows, outcome.result,
                          comparison.seed};
  for (const job::Job& job : comparison.jobs) {
    JobOutcome& of = outcome.jobs.emplace_back();
    of.figures = job::figures_of(job, *comparison.tasks, outcome.result);
    of.level = job::flow_level(job, topology, outcome.scheme);
    of.difference = job::difference_of(job, of.figures, of.level, run);
  }
}

double fairness_of_jobs(const Outcome& outcome) {
  double count = 0, sum = 0, squares = 0;
  for (const JobOutcome& job : outcome.jobs) {
    const double progress = job.difference.ratio > 0 ? 1 / job.difference.ratio : 0;
    ++count;
    sum += progress;
    squares += progress * progress;
  }
  return squares > 0 ? sum * sum / (count * squares) : 1;
}

void print_jobs(const Comparison& comparison, const Outcome& outcome) {
  const sim::fabric::Topology& topology = comparison.scenario.topology;
  for (size_t i = 0; i < outcome.jobs.size(); ++i) {
    const job::Job& job = comparison.jobs[i];
    const JobOutcome& of = outcome.jobs[i];
    const auto us = [](int64_t ns) { return double(ns) / 1e3; };
    std::printf("  %s: %s %s of %.3f MB over %u ranks (%s): %zu of %u steps ended\n",
                job.spec.name.c_str(), std::string(job.algorithm->name).c_str(),
                std::string(name(job.shape.collective)).c_str(), double(job.bytes) / 1e6,
                job.ranks(), job.proof.c_str(), of.figures.step_ns.size(), job.spec.steps);
    if (of.figures.step_ns.empty()) continue;
    std::printf("    step %.2f us", us(of.figures.median_step_ns));
    if (job.spec.compute_ns > 0)
      std::printf(", of these %.2f us computation, %.2f us exposed communication",
                  us(job.spec.compute_ns), us(of.figures.exposed_ns));
    std::printf("; flow level %.2f us (ratio %.3f)\n", of.level.step_s * 1e6, of.difference.ratio);
    std::printf(
        "    algorithm bandwidth %.3f GB/s, bus bandwidth %.3f GB/s; slowest link %u>%u, "
        "busy %.1f %%\n",
        of.figures.algorithm_gbytes_per_s, of.figures.bus_gbytes_per_s,
        topology.from(of.difference.slowest_port), topology.to(of.difference.slowest_port),
        of.difference.slowest_utilisation * 100);
    for (const std::string& reason : of.difference.reasons)
      std::printf("    because of %s\n", reason.c_str());
  }
  if (outcome.jobs.size() > 1)
    std::printf("  Jain of the progress of %zu jobs, each relative to flow level alone: %.3f\n",
                outcome.jobs.size(), fairness_of_jobs(outcome));
}

}  // namespace weft::bench
