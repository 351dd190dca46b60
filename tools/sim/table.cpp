// SPDX-License-Identifier: BSD-3-Clause
// What a person reads at the end of a run.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

std::string size_text(double bytes) {
  char text[32];
  if (std::isinf(bytes))
    return "more";
  else if (bytes >= 1e6)
    std::snprintf(text, sizeof text, "%g MB", bytes / 1e6);
  else if (bytes >= 1e3)
    std::snprintf(text, sizeof text, "%g KB", bytes / 1e3);
  else
    std::snprintf(text, sizeof text, "%g B", bytes);
  return text;
}

void print_outcome(const Comparison& comparison, const Outcome& outcome) {
  const sim::flow::RunResult& r = outcome.result;
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  const double rate = outcome.seconds > 0 ? double(r.data_delivered) / outcome.seconds : 0;
  std::printf(
      "\n%s: %zu of %zu flows finished, %.3f ms, %.2f M data packets delivered in %.2f CPU s "
      "(%.2f M/s), %.0f ns per event\n",
      outcome.label.c_str(), finished(outcome), r.flows.size(), double(r.end_ns) / 1e6,
      double(r.data_delivered) / 1e6, outcome.seconds, rate / 1e6,
      r.events > 0 ? outcome.seconds * 1e9 / double(r.events) : 0);
  const sim::flow::QueueSamples& q = r.queues;
  std::printf(
      "  queue p50/p95/p99/max %llu/%llu/%llu/%llu KB, PFC pauses %llu (%.1f us), drops "
      "%llu, lost by links %llu, retransmitted %llu, busiest link %.1f %%\n",
      number(q.percentile_kb(0.5)), number(q.percentile_kb(0.95)), number(q.percentile_kb(0.99)),
      number(q.most_kb()), number(r.counters.pauses), double(r.paused_ns) / 1e3,
      number(r.counters.dropped), number(r.counters.lost), number(r.retransmitted),
      r.busiest_link * 100);
  print_jobs(comparison, outcome);
  const Times times = completion_times(comparison, outcome);
  const Fairness jain = fairness(comparison, outcome);
  if (times.last == 0 && !outcome.jobs.empty()) return;  // no flows but those of jobs
  std::printf(
      "  goodput %.2f Gb/s, Jain of flows that share a bottleneck %.3f (least %.3f of %zu)\n",
      goodput_gbps(comparison, outcome), jain.mean, jain.least, jain.links);
  std::printf("  FCT first/p50/p99/last %.2f/%.2f/%.2f/%.2f us, trimmed %llu\n", times.first,
              times.p50, times.p99, times.last, number(r.counters.trimmed));
  if (r.counters.unrecorded > 0)
    std::printf("  NO TELEMETRY of %llu hops: detours are longer than the records of a packet\n",
                number(r.counters.unrecorded));
  if (r.stalled) std::printf("  STALLED: flows without a route to their destination\n");
  if (r.deadlocked) std::printf("  DEADLOCK: PFC pauses in a cycle: %s\n", r.deadlock.c_str());
  std::printf("  %-20s %8s %9s %9s %9s %9s\n", "FCT slowdown", "flows", "p50", "p95", "p99",
              "p99.9");
  for (const Bucket& bucket : slowdowns(comparison, outcome)) {
    if (bucket.slowdowns.empty()) continue;
    std::printf("  %-20s %8zu %9.2f %9.2f %9.2f %9.2f\n", bucket.name().c_str(),
                bucket.slowdowns.size(), bucket.percentile(0.5), bucket.percentile(0.95),
                bucket.percentile(0.99), bucket.percentile(0.999));
  }
}

// Over several seeds: the median of each figure, and its range.
void print_bands(const std::vector<Comparison>& comparisons, size_t index) {
  const Outcome& first = comparisons[0].outcomes[index];
  size_t unfinished = 0;
  std::vector<std::pair<std::string, std::vector<double>>> figures;
  const auto add = [&figures](const std::string& name, double value) {
    for (auto& [known, values] : figures)
      if (known == name) return values.push_back(value);
    figures.push_back({name, {value}});
  };
  for (const Comparison& comparison : comparisons) {
    const Outcome& outcome = comparison.outcomes[index];
    unfinished += outcome.result.flows.size() - finished(outcome);
    for (size_t job = 0; job < outcome.jobs.size(); ++job) {
      const std::string& name = comparison.jobs[job].spec.name;
      add(name + " step, us", double(outcome.jobs[job].figures.median_step_ns) / 1e3);
      add(name + " bus bandwidth, GB/s", outcome.jobs[job].figures.bus_gbytes_per_s);
      add(name + " step / flow level", outcome.jobs[job].difference.ratio);
    }
    if (outcome.jobs.size() > 1) add("Jain of jobs", fairness_of_jobs(outcome));
    add("queue p95, KB", double(outcome.result.queues.percentile_kb(0.95)));
    add("queue p99, KB", double(outcome.result.queues.percentile_kb(0.99)));
    add("queue max, KB", double(outcome.result.queues.most_kb()));
    add("PFC pauses", double(outcome.result.counters.pauses));
    const Times times = completion_times(comparison, outcome);
    add("PFC paused, us", double(outcome.result.paused_ns) / 1e3);
    add("retransmitted", double(outcome.result.retransmitted));
    add("busiest link, %", outcome.result.busiest_link * 100);
    add("goodput, Gb/s", goodput_gbps(comparison, outcome));
    add("Jain of shared bottlenecks", fairness(comparison, outcome).mean);
    add("first FCT, us", times.first);
    add("p99 FCT, us", times.p99);
    add("last FCT, us", times.last);
    for (const Bucket& bucket : slowdowns(comparison, outcome)) {
      if (bucket.slowdowns.empty()) continue;
      add("slowdown p50, " + bucket.name(), bucket.percentile(0.5));
      add("slowdown p99, " + bucket.name(), bucket.percentile(0.99));
    }
  }
  std::printf("\n%s: %zu seeds, %zu flows unfinished\n", first.label.c_str(), comparisons.size(),
              unfinished);
  for (auto& [name, values] : figures) {
    std::sort(values.begin(), values.end());
    std::printf("  %-36s %9.2f  (%.2f .. %.2f)\n", name.c_str(), values[values.size() / 2],
                values.front(), values.back());
  }
}

}  // namespace

std::string Bucket::name() const { return size_text(low) + " .. " + size_text(high); }

void print_tables(const std::vector<Comparison>& comparisons) {
  const Comparison& first = comparisons.front();
  if (!first.scenario.title.empty()) std::printf("%s\n", first.scenario.title.c_str());
  for (size_t i = 0; i < first.outcomes.size(); ++i) {
    if (comparisons.size() == 1)
      print_outcome(first, first.outcomes[i]);
    else
      print_bands(comparisons, i);
  }
}

}  // namespace weft::bench
