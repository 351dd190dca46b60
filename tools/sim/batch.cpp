// SPDX-License-Identifier: BSD-3-Clause
// Runs on several threads: each takes the next pending run. A run
// itself is single-threaded, so the number of jobs changes no result. While a person watches, one
// line says how far all of it is.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

// Of this thread: what a run costs, on a busy machine too.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

struct Job {
  const Comparison* comparison;
  Outcome* outcome;
  uint64_t packets = 0;  // data packets of all its flows: what progress is measured against
  sim::flow::Progress progress;
  std::string pcap;
  std::optional<Error> error;
};

// trace.pcap of one run alone, else trace-hpcc-seed_2.pcap.
std::string capture_name(const Comparison& comparison, const Outcome& outcome, bool alone) {
  const std::filesystem::path path = comparison.command.pcap;
  if (alone || path.empty()) return path.string();
  const std::string name = path.stem().string() + "-" + outcome.label + "-seed_" +
                           std::to_string(comparison.seed) + path.extension().string();
  return (path.parent_path() / name).string();
}

void run_job(Job& job) {
  sim::flow::RunOptions options = job.comparison->options;
  options.progress = &job.progress;
  options.pcap = job.pcap;
  const double begin = processor_seconds();
  Result<sim::flow::RunResult> result =
      sim::flow::run(job.comparison->scenario.topology, job.outcome->scheme,
                     job.comparison->scenario.flows, options);
  job.outcome->seconds = processor_seconds() - begin;
  if (!result) {
    job.error = result.error();
    return;
  }
  job.outcome->result = std::move(*result);
  compare_jobs(*job.comparison, *job.outcome);
}

// Done, as a share: by packets or by virtual time, whichever is farther.
double share_of(const Job& job) {
  double share = double(job.progress.delivered) / double(std::max<uint64_t>(job.packets, 1));
  if (job.comparison->options.until_ns != sim::flow::kNever)
    share = std::max(share, double(job.progress.now_ns) / double(job.comparison->options.until_ns));
  return std::min(share, 1.0);
}

void watch(const std::vector<Job>& jobs, const std::atomic<size_t>& done) {
  const auto begin = std::chrono::steady_clock::now();
  while (done < jobs.size()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    double share = 0;
    for (const Job& job : jobs) share += share_of(job) / double(jobs.size());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    const double left = share > 0 ? spent.count() * (1 - share) / share : 0;
    std::fprintf(stderr, "\r%zu of %zu runs done, %3.0f %%, %.0f s left  ", done.load(),
                 jobs.size(), share * 100, left);
  }
  std::fprintf(stderr, "\r%60s\r", "");
}

}  // namespace

Result<void> run_batch(std::vector<Comparison>& comparisons, unsigned job_limit) {
  size_t count = 0;
  for (const Comparison& comparison : comparisons) count += comparison.outcomes.size();
  std::vector<Job> jobs(count);
  size_t filled = 0;
  for (Comparison& comparison : comparisons)
    for (Outcome& outcome : comparison.outcomes) {
      Job& job = jobs[filled++];
      job.comparison = &comparison;
      job.outcome = &outcome;
      job.pcap = capture_name(comparison, outcome, count == 1);
      const uint64_t payload = outcome.scheme.payload;
      for (const sim::flow::FlowSpec& flow : comparison.scenario.flows)
        job.packets += (flow.bytes + payload - 1) / payload;
    }
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(job_limit, count); ++i)
    threads.emplace_back([&] {
      for (size_t index = next.fetch_add(1); index < count; index = next.fetch_add(1)) {
        run_job(jobs[index]);
        done.fetch_add(1);
      }
    });
  if (isatty(STDERR_FILENO)) watch(jobs, done);
  for (std::thread& thread : threads) thread.join();
  const RunCommand& command = comparisons.front().command;
  const std::string& source = command.scenario.empty() ? command.flows : command.scenario;
  for (const Job& job : jobs)
    if (job.error) return Error{job.error->code, source + ": " + job.error->message};
  return {};
}

}  // namespace weft::bench
