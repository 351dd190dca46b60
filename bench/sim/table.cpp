// SPDX-License-Identifier: BSD-3-Clause
// What a person reads at the end of a run, and the slowdowns behind it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "bench/sim/command_run.hpp"

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
  const auto finished =
      std::count_if(r.flows.begin(), r.flows.end(), [](const auto& f) { return f.fct_ns >= 0; });
  const double rate = outcome.seconds > 0 ? double(r.data_delivered) / outcome.seconds : 0;
  std::printf(
      "\n%s: %zd of %zu flows finished, %.3f ms, %.2f M data packets delivered in %.2f CPU s "
      "(%.2f M/s), %.0f ns per event\n",
      outcome.scheme.name.c_str(), static_cast<ssize_t>(finished), r.flows.size(),
      double(r.end_ns) / 1e6, double(r.data_delivered) / 1e6, outcome.seconds, rate / 1e6,
      r.events > 0 ? outcome.seconds * 1e9 / double(r.events) : 0);
  std::printf(
      "  queue p50/p95/p99/max %llu/%llu/%llu/%llu KB, PFC pauses %llu (%.1f us), drops "
      "%llu, retransmitted %llu, busiest link %.1f %%\n",
      static_cast<unsigned long long>(r.queues.percentile_kb(0.5)),
      static_cast<unsigned long long>(r.queues.percentile_kb(0.95)),
      static_cast<unsigned long long>(r.queues.percentile_kb(0.99)),
      static_cast<unsigned long long>(r.queues.most_kb()),
      static_cast<unsigned long long>(r.counters.pauses), double(r.paused_ns) / 1e3,
      static_cast<unsigned long long>(r.counters.dropped),
      static_cast<unsigned long long>(r.retransmitted), r.busiest_link * 100);
  if (r.deadlocked) std::printf("  DEADLOCK: PFC pauses in a circle: %s\n", r.deadlock.c_str());
  std::printf("  %-20s %8s %9s %9s %9s %9s\n", "FCT slowdown", "flows", "p50", "p95", "p99",
              "p99.9");
  for (const Bucket& bucket : slowdowns(comparison, outcome)) {
    if (bucket.slowdowns.empty()) continue;
    const std::string name = size_text(bucket.low) + " .. " + size_text(bucket.high);
    std::printf("  %-20s %8zu %9.2f %9.2f %9.2f %9.2f\n", name.c_str(), bucket.slowdowns.size(),
                bucket.percentile(0.5), bucket.percentile(0.95), bucket.percentile(0.99),
                bucket.percentile(0.999));
  }
}

}  // namespace

double Bucket::percentile(double share) const {
  if (slowdowns.empty()) return 0;
  const auto index = static_cast<size_t>(static_cast<double>(slowdowns.size()) * share);
  return slowdowns[std::min(index, slowdowns.size() - 1)];
}

// The last bucket of the list is all flows together.
std::vector<Bucket> slowdowns(const Comparison& comparison, const Outcome& outcome) {
  std::vector<Bucket> buckets;
  std::vector<double> ends = comparison.buckets;
  if (ends.empty()) ends = {10'000, 30'000, 80'000, 200'000, 1'000'000, 5'000'000};
  ends.push_back(std::numeric_limits<double>::infinity());
  double low = 0;
  for (const double high : ends) {
    buckets.push_back({.low = low, .high = high});
    low = high;
  }
  buckets.push_back({.low = 0, .high = ends.back()});
  for (size_t i = 0; i < comparison.flows.size(); ++i) {
    const sim::flow::FlowResult& flow = outcome.result.flows[i];
    if (flow.fct_ns < 0) continue;
    const double slowdown = std::max(1.0, double(flow.fct_ns) / double(flow.ideal_ns));
    const double bytes = double(comparison.flows[i].bytes);
    for (Bucket& bucket : buckets)
      if (bucket.low < bytes && bytes <= bucket.high) bucket.slowdowns.push_back(slowdown);
  }
  for (Bucket& bucket : buckets) std::sort(bucket.slowdowns.begin(), bucket.slowdowns.end());
  return buckets;
}

void print_table(const Comparison& comparison) {
  if (!comparison.title.empty()) std::printf("%s\n", comparison.title.c_str());
  for (const Outcome& outcome : comparison.outcomes) print_outcome(comparison, outcome);
}

}  // namespace weft::bench
