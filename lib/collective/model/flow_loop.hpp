// SPDX-License-Identifier: BSD-3-Clause
// The event loop of the flow model: ends of flows and arrivals of messages. A run (program_run.hpp,
// symmetric.cpp) supplies the flows, a function their routes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/program_run.hpp"

namespace weft::collective {

inline constexpr double kMinRelativeTime = 1e-12;   // shorter times are 0, relative to the clock
inline constexpr double kRelativeTolerance = 1e-9;  // events closer than this are simultaneous
inline constexpr double kCoalescing = 1e-5;         // the same with `coalesce`
// A link is a bottleneck of a flow if its load is at least this fraction of the highest load on the
// flow's route: a flow that shares an earlier link of similar load reaches the highest-loaded one
// later than latency alone would predict.
inline constexpr double kBottleneckRatio = 0.5;

struct Flow {
  ProgramRun::Put put;  // travelled_s: latency to its first bottleneck
  double bytes_left = 0;
  double rate = 0;
  const Route* route = nullptr;
};

// A flow whose first byte travels to its first bottleneck until `time`.
struct Departure {
  double time = 0;
  Flow flow;
  bool operator>(const Departure& other) const { return time > other.time; }
};

struct Arrival {
  double time = 0;
  ProgramRun::Put put;
  bool operator>(const Arrival& other) const { return time > other.time; }
};

// Assigns every flow its max-min fair rate by progressive filling: all rates grow together until a
// link of the flow is full.
class FairShare {
 public:
  explicit FairShare(const std::vector<NetworkLink>& links)
      : links_(links),
        capacity_left_(links.size()),
        weight_(links.size()),
        link_flows_(links.size()) {}

  // Postcondition: every flow has a positive rate.
  void assign_rates(std::vector<Flow>& flows) {
    for (const uint32_t link : used_) {
      weight_[link] = 0;
      link_flows_[link].clear();
    }
    used_.clear();
    frozen_.assign(flows.size(), false);
    for (uint32_t f = 0; f < flows.size(); ++f)
      for (const RouteShare& part : flows[f].route->shares) {
        if (link_flows_[part.link].empty()) used_.push_back(part.link);
        capacity_left_[part.link] = links_[part.link].bytes_per_s;
        weight_[part.link] += part.share;
        link_flows_[part.link].push_back(f);
      }
    double rate = 0;
    for (size_t frozen = 0; frozen < flows.size();) {
      const double growth = smallest_growth();
      WEFT_DCHECK(growth >= 0 && std::isfinite(growth));
      rate += growth;
      std::vector<uint32_t> full;
      for (const uint32_t link : used_) {
        if (weight_[link] <= kRelativeTolerance) continue;
        capacity_left_[link] -= growth * weight_[link];
        if (capacity_left_[link] <= links_[link].bytes_per_s * kRelativeTolerance)
          full.push_back(link);
      }
      for (const uint32_t link : full)
        for (const uint32_t f : link_flows_[link]) frozen += freeze(flows[f], f, rate);
    }
  }

 private:
  double smallest_growth() const {
    double growth = std::numeric_limits<double>::infinity();
    for (const uint32_t link : used_)
      if (weight_[link] > kRelativeTolerance)
        growth = std::min(growth, capacity_left_[link] / weight_[link]);
    return growth;
  }

  size_t freeze(Flow& flow, uint32_t f, double rate) {
    if (frozen_[f]) return 0;
    WEFT_DCHECK(rate > 0);
    frozen_[f] = true;
    flow.rate = rate;
    for (const RouteShare& part : flow.route->shares) weight_[part.link] -= part.share;
    return 1;
  }

  const std::vector<NetworkLink>& links_;
  std::vector<double> capacity_left_, weight_;
  std::vector<std::vector<uint32_t>> link_flows_;
  std::vector<uint32_t> used_;  // links with at least one flow
  std::vector<bool> frozen_;
};

template <class Run, class RouteOf>
class FlowLoop {
 public:
  // `coalesce`: events within kCoalescing are simultaneous, for thousands of chips.
  FlowLoop(const std::vector<NetworkLink>& links, Run& run, RouteOf route_of, bool coalesce)
      : links_(links),
        fair_(links),
        run_(run),
        route_of_(std::move(route_of)),
        coalesce_(coalesce),
        link_load_(links.size()) {
    result_.link_bytes.assign(links.size(), 0);
  }

  Prediction run() {
    start_flows();
    while (!flows_.empty() || !arrivals_.empty() || !departures_.empty()) {
      if (changed_) fair_.assign_rates(flows_);
      changed_ = false;
      advance_to(next_time());
    }
    WEFT_DCHECK(now_ >= 0);
    result_.seconds = now_;
    return std::move(result_);
  }

 private:
  double next_time() const {
    double next = std::numeric_limits<double>::infinity();
    for (const Flow& flow : flows_) next = std::min(next, now_ + flow.bytes_left / flow.rate);
    if (!arrivals_.empty()) next = std::min(next, arrivals_.top().time);
    if (!departures_.empty()) next = std::min(next, departures_.top().time);
    if (!coalesce_) return next;
    // Flows that end within kCoalescing end with the last of them.
    double last = next;
    for (const Flow& flow : flows_) {
      const double end = now_ + flow.bytes_left / flow.rate;
      if (end <= next * (1 + kCoalescing)) last = std::max(last, end);
    }
    return last;
  }

  // With `coalesce`, rounds a time up, so that events of thousands of chips whose blocks differ by
  // an element coincide. Up, so that no prediction beats a lower bound: at most kCoalescing of the
  // time per sequential step.
  double round_up(double time) const {
    if (!coalesce_ || time <= 0) return time;
    WEFT_DCHECK(std::isfinite(time));
    const double quantum = std::exp2(std::floor(std::log2(time * kCoalescing)));
    return std::ceil(time / quantum) * quantum;
  }

  void advance_to(double time) {
    const double elapsed = time - now_;
    WEFT_DCHECK(elapsed >= 0 && std::isfinite(time));  // time never runs backwards
    now_ = time;
    std::vector<Flow> ended;
    for (size_t f = 0; f < flows_.size();) {
      Flow& flow = flows_[f];
      flow.bytes_left -= flow.rate * elapsed;
      // The remaining bytes may take less time than the clock resolves.
      const double min_bytes =
          std::max(kRelativeTolerance * flow.put.bytes, flow.rate * now_ * kMinRelativeTime);
      if (flow.bytes_left > min_bytes) {
        ++f;
        continue;
      }
      ended.push_back(flow);
      flow = flows_.back();
      flows_.pop_back();
    }
    changed_ |= !ended.empty();
    for (const Flow& flow : ended) {
      for (const RouteShare& part : flow.route->shares) link_load_[part.link] -= part.share;
      arrivals_.push({round_up(now_ + flow.route->latency_s - flow.put.travelled_s), flow.put});
      run_.on_sent(flow.put);
    }
    while (!arrivals_.empty() && arrivals_.top().time <= now_ * (1 + kRelativeTolerance)) {
      const ProgramRun::Put put = arrivals_.top().put;
      arrivals_.pop();
      run_.on_arrived(put);
    }
    start_flows();
    for (; !departures_.empty() && departures_.top().time <= now_ * (1 + kRelativeTolerance);
         departures_.pop())
      start_flow(departures_.top().flow);
  }

  void start_flows() {
    const std::vector<ProgramRun::Put> puts = run_.take_ready_puts();
    for (const ProgramRun::Put& put : puts)
      for (const RouteShare& part : route_of_(put).shares) {
        WEFT_DCHECK(part.share > 0 && put.bytes >= 0 && part.link < links_.size());
        link_load_[part.link] += part.share;
        result_.link_bytes[part.link] += part.share * put.bytes;
      }
    for (const ProgramRun::Put& put : puts) {
      Flow flow{put, put.bytes, 0, &route_of_(put)};
      flow.put.travelled_s = std::max(put.travelled_s, latency_to_bottleneck(*flow.route));
      if (flow.put.travelled_s <= put.travelled_s)
        start_flow(flow);
      else
        departures_.push({round_up(now_ + flow.put.travelled_s - put.travelled_s), flow});
    }
  }

  // The latency to the first bottleneck of a route.
  double latency_to_bottleneck(const Route& route) const {
    double highest = 0;
    for (const RouteShare& part : route.shares) highest = std::max(highest, utilisation(part.link));
    double before_s = route.latency_s;
    WEFT_DCHECK(before_s >= 0);
    for (const RouteShare& part : route.shares)
      if (utilisation(part.link) >= kBottleneckRatio * highest)
        before_s = std::min(before_s, part.before_s);
    return before_s;
  }
  // In seconds per byte of its flows.
  double utilisation(uint32_t link) const { return link_load_[link] / links_[link].bytes_per_s; }

  void start_flow(const Flow& flow) {
    WEFT_DCHECK(flow.route != nullptr && flow.bytes_left >= 0);
    flows_.push_back(flow);
    changed_ = true;
  }

  const std::vector<NetworkLink>& links_;
  FairShare fair_;
  Run& run_;
  RouteOf route_of_;
  bool coalesce_;
  double now_ = 0;
  bool changed_ = false;
  std::vector<Flow> flows_;
  std::vector<double> link_load_;  // sum of the shares of flows that have started or are departing
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  Prediction result_;
};

}  // namespace weft::collective
