// SPDX-License-Identifier: BSD-3-Clause
// Reads the input, runs one simulation per controller on as many threads as are allowed, and shows
// how far they are while a person is watching.
#include "bench/sim/command_run.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "lib/sim/scenario/csv.hpp"
#include "lib/sim/scenario/scenario.hpp"

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;

int fail(const Error& error) {
  std::fprintf(stderr, "weft_sim: %s\n", error.message.c_str());
  return 2;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of this thread: what a run costs, on a busy machine too.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

Result<void> apply_settings(const RunCommand& command, sim::flow::Parameters& parameters) {
  for (const std::string& setting : command.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      return Error{Code::invalid_argument, "--set " + setting + ": write key=value"};
    Result<void> set = parameters.set(setting.substr(0, equals), setting.substr(equals + 1));
    if (!set) return Error{Code::invalid_argument, "--set " + setting + ": " + set.error().message};
  }
  return {};
}

// Data packets of the list: what progress is measured against.
uint64_t count_packets(const std::vector<sim::flow::FlowSpec>& flows, uint32_t payload) {
  uint64_t packets = 0;
  for (const sim::flow::FlowSpec& flow : flows) packets += (flow.bytes + payload - 1) / payload;
  return packets;
}

Result<sim::flow::RunOptions> make_options(const Comparison& comparison,
                                           const sim::scenario::Scenario& scenario) {
  using sim::flow::Net;
  const sim::flow::Parameters& parameters = comparison.parameters;
  sim::flow::RunOptions options;
  options.seed = comparison.command.seed;
  options.sample_ns = static_cast<int64_t>(parameters[Net::sample]);
  options.queue_window_ns = static_cast<int64_t>(parameters[Net::queue_window]);
  if (!parameters.is_auto(Net::queue_until))
    options.queue_until_ns = static_cast<int64_t>(parameters[Net::queue_until]);
  if (scenario.until_ns) options.until_ns = *scenario.until_ns;
  if (comparison.command.until.empty()) return options;
  Result<int64_t> until = sim::flow::parse_time_ns(comparison.command.until);
  if (!until) return Error{until.error().code, "--until: " + until.error().message};
  options.until_ns = *until;
  return options;
}

// The work of all threads: the next controller that nobody runs, until there is none.
class Batch {
 public:
  Batch(Comparison& comparison, const sim::fabric::Topology& topology,
        const sim::flow::RunOptions& options)
      : comparison_(comparison),
        topology_(topology),
        options_(options),
        progress_(comparison.outcomes.size()) {}

  Result<void> run(unsigned jobs) {
    std::vector<std::thread> threads;
    const size_t count = std::min<size_t>(std::max(jobs, 1u), comparison_.outcomes.size());
    for (size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    if (isatty(STDERR_FILENO)) watch();
    for (std::thread& thread : threads) thread.join();
    std::optional<Error> first;
    for (const std::optional<Error>& error : errors_)
      if (error && !first) first = error;
    if (first) return *first;
    return {};
  }

 private:
  void work() {
    while (true) {
      const size_t index = next_.fetch_add(1);
      if (index >= comparison_.outcomes.size()) return;
      Outcome& outcome = comparison_.outcomes[index];
      sim::flow::RunOptions options = options_;
      options.progress = &progress_[index];
      const double begin = processor_seconds();
      Result<sim::flow::RunResult> result =
          sim::flow::run(topology_, outcome.scheme, comparison_.flows, options);
      outcome.seconds = processor_seconds() - begin;
      if (result)
        outcome.result = std::move(*result);
      else
        errors_[index] = result.error();
      done_.fetch_add(1);
    }
  }

  // One line on the terminal: share done and time left, by packets delivered or by virtual time,
  // whichever is farther.
  void watch() {
    const Clock::time_point begin = Clock::now();
    const uint64_t per_run =
        count_packets(comparison_.flows, comparison_.outcomes[0].scheme.payload);
    while (done_ < comparison_.outcomes.size()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      double share = 0;
      for (const sim::flow::Progress& progress : progress_) {
        double one = double(progress.delivered) / double(std::max<uint64_t>(per_run, 1));
        if (options_.until_ns != sim::flow::kNever)
          one = std::max(one, double(progress.now_ns) / double(options_.until_ns));
        share += std::min(one, 1.0);
      }
      share /= double(progress_.size());
      const double left = share > 0 ? seconds_since(begin) * (1 - share) / share : 0;
      std::fprintf(stderr, "\r%3.0f %%, %.0f s left  ", share * 100, left);
    }
    std::fprintf(stderr, "\r                        \r");
  }

  Comparison& comparison_;
  const sim::fabric::Topology& topology_;
  const sim::flow::RunOptions options_;
  std::vector<sim::flow::Progress> progress_;
  std::vector<std::optional<Error>> errors_{progress_.size()};
  std::atomic<size_t> next_{0};
  std::atomic<size_t> done_{0};
};

// The scenario of the TOML file, or of the CSV files.
Result<sim::scenario::Scenario> load(const RunCommand& command) {
  if (!command.scenario.empty()) {
    if (!command.topology.empty() || !command.flows.empty())
      return Error{Code::invalid_argument,
                   "give a scenario file or --topology and --flows, not both"};
    return sim::scenario::read_scenario(command.scenario, command.seed);
  }
  if (command.topology.empty() || command.flows.empty())
    return Error{Code::invalid_argument, "give a scenario file, or --topology and --flows"};
  Result<sim::fabric::Topology> topology = sim::scenario::read_topology(command.topology);
  if (!topology) return topology.error();
  if (!command.degraded.empty()) {
    Result<void> degraded = sim::scenario::read_degraded(command.degraded, *topology);
    if (!degraded) return degraded.error();
  }
  Result<sim::scenario::FlowList> flows = sim::scenario::read_flows(command.flows);
  if (!flows) return flows.error();
  return sim::scenario::Scenario{
      .topology = std::move(*topology), .flows = std::move(*flows), .controllers = {"hpcc"}};
}

// What the command line says goes before what the scenario says.
Result<void> prepare(Comparison& comparison, const sim::scenario::Scenario& scenario) {
  const RunCommand& command = comparison.command;
  for (const auto& [key, value] : scenario.settings) {
    Result<void> set = comparison.parameters.set(key, value);
    if (!set) return set;
  }
  Result<void> set = apply_settings(command, comparison.parameters);
  if (!set) return set;
  comparison.title = scenario.title;
  comparison.flows = scenario.flows;
  comparison.buckets = command.buckets.empty() ? scenario.buckets : command.buckets;
  const std::vector<std::string>& controllers =
      command.controllers.empty() ? scenario.controllers : command.controllers;
  for (const std::string& controller : controllers) {
    Result<sim::flow::Scheme> scheme =
        sim::flow::make_scheme(controller, comparison.parameters, scenario.topology);
    if (!scheme) return scheme.error();
    comparison.outcomes.push_back({.scheme = std::move(*scheme)});
  }
  return {};
}

}  // namespace

int command_run(const RunCommand& command) {
  Result<sim::scenario::Scenario> scenario = load(command);
  if (!scenario) return fail(scenario.error());
  Comparison comparison;
  comparison.command = command;
  Result<void> prepared = prepare(comparison, *scenario);
  if (!prepared) return fail(prepared.error());
  Result<sim::flow::RunOptions> options = make_options(comparison, *scenario);
  if (!options) return fail(options.error());
  const unsigned jobs = command.jobs != 0 ? command.jobs : std::thread::hardware_concurrency();
  Result<void> ran = Batch(comparison, scenario->topology, *options).run(jobs);
  if (!ran)
    return fail(Error{ran.error().code, (command.flows.empty() ? command.scenario : command.flows) +
                                            ": " + ran.error().message});
  Result<void> written = write_results(comparison);
  if (!written) return fail(written.error());
  print_table(comparison);
  return 0;
}

}  // namespace weft::bench
