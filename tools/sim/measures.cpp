// SPDX-License-Identifier: BSD-3-Clause
// The figures of a run that are worked out of its flows: completion times, slowdowns, goodput,
// fairness.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

// Finished, and begun after the warm-up. Connections of jobs are open between their messages: their
// times say nothing.
bool counts(const Comparison& comparison, const Outcome& outcome, size_t flow) {
  return outcome.result.flows[flow].fct_ns >= 0 && !is_of_job(comparison, flow) &&
         double(outcome.result.flows[flow].started_ns) >=
             comparison.parameters[sim::flow::Net::warm_up];
}

}  // namespace

double Bucket::percentile(double share) const {
  if (slowdowns.empty()) return 0;
  const auto index = static_cast<size_t>(static_cast<double>(slowdowns.size()) * share);
  return slowdowns[std::min(index, slowdowns.size() - 1)];
}

size_t finished(const Outcome& outcome) {
  return static_cast<size_t>(std::count_if(outcome.result.flows.begin(), outcome.result.flows.end(),
                                           [](const auto& flow) { return flow.fct_ns >= 0; }));
}

Times completion_times(const Comparison& comparison, const Outcome& outcome) {
  std::vector<double> us;
  for (size_t i = 0; i < outcome.result.flows.size(); ++i)
    if (counts(comparison, outcome, i)) us.push_back(double(outcome.result.flows[i].fct_ns) / 1e3);
  if (us.empty()) return {};
  std::sort(us.begin(), us.end());
  const auto at = [&us](double share) {
    return us[std::min(static_cast<size_t>(double(us.size()) * share), us.size() - 1)];
  };
  return {us.front(), at(0.5), at(0.99), us.back()};
}

// The last bucket of the list is all flows together.
std::vector<Bucket> slowdowns(const Comparison& comparison, const Outcome& outcome) {
  std::vector<Bucket> buckets;
  std::vector<double> ends = comparison.scenario.buckets;
  if (ends.empty()) ends = {10'000, 30'000, 80'000, 200'000, 1'000'000, 5'000'000};
  ends.push_back(std::numeric_limits<double>::infinity());
  double low = 0;
  for (const double high : ends) {
    buckets.push_back({.low = low, .high = high});
    low = high;
  }
  buckets.push_back({.low = 0, .high = ends.back()});
  for (size_t i = 0; i < comparison.scenario.flows.size(); ++i) {
    if (!counts(comparison, outcome, i)) continue;
    const sim::flow::FlowResult& flow = outcome.result.flows[i];
    const double slowdown = std::max(1.0, double(flow.fct_ns) / double(flow.ideal_ns));
    const double bytes = double(comparison.scenario.flows[i].bytes);
    for (Bucket& bucket : buckets)
      if (bucket.low < bytes && bytes <= bucket.high) bucket.slowdowns.push_back(slowdown);
  }
  for (Bucket& bucket : buckets) std::sort(bucket.slowdowns.begin(), bucket.slowdowns.end());
  return buckets;
}

double goodput_gbps(const Comparison& comparison, const Outcome& outcome) {
  double bytes = 0;
  int64_t begin = INT64_MAX;
  int64_t end = 0;
  for (size_t i = 0; i < outcome.result.flows.size(); ++i) {
    if (!counts(comparison, outcome, i)) continue;
    const sim::flow::FlowSpec& flow = comparison.scenario.flows[i];
    bytes += double(flow.bytes);
    const sim::flow::FlowResult& result = outcome.result.flows[i];
    begin = std::min(begin, result.started_ns);
    end = std::max(end, result.started_ns + result.fct_ns);
  }
  return end > begin ? bytes * 8 / double(end - begin) : 0;
}

Fairness fairness(const Comparison& comparison, const Outcome& outcome) {
  struct Sums {
    double count = 0;
    double rates = 0;
    double squares = 0;
  };
  std::map<uint32_t, Sums> by_port;
  for (size_t i = 0; i < outcome.result.flows.size(); ++i) {
    const sim::flow::FlowResult& flow = outcome.result.flows[i];
    if (!counts(comparison, outcome, i) || flow.fct_ns == 0) continue;
    const double rate = double(comparison.scenario.flows[i].bytes) / double(flow.fct_ns);
    Sums& sums = by_port[flow.bottleneck];
    ++sums.count;
    sums.rates += rate;
    sums.squares += rate * rate;
  }
  Fairness result{.mean = 0, .least = 1};
  double flows = 0;
  for (const auto& [port, sums] : by_port) {
    if (sums.count < 2) continue;
    const double jain = sums.rates * sums.rates / (sums.count * sums.squares);
    ++result.links;
    flows += sums.count;
    result.mean += jain * sums.count;
    result.least = std::min(result.least, jain);
  }
  result.mean = flows > 0 ? result.mean / flows : 1;
  return result;
}

}  // namespace weft::bench
