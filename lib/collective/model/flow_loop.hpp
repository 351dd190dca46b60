// SPDX-License-Identifier: BSD-3-Clause
// The event loop of the flow model: flows that end and messages that arrive. Whose they are, and
// over which links, is told by a run (program_run.hpp, alike.cpp) and a function that finds routes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/program_run.hpp"

namespace weft::collective {

inline constexpr double kTick = 1e-12;  // relative: no shorter time counts
inline constexpr double kSame = 1e-9;   // relative: what ends within it ends together
inline constexpr double kAlmost = 1e-5;
// A link is narrow for a flow if it is so busy, beside the busiest on its way. Who shares an
// earlier one with others, almost as busy, comes late to the busiest, and not when latency alone
// would say.
inline constexpr double kNarrow = 0.5;

struct Flow {
  ProgramRun::Put put;  // behind_s: how far its first narrow link is
  double bytes_left = 0;
  double rate = 0;
  const Route* route = nullptr;
};

// A flow whose first byte is on its way to its first narrow link.
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

// Gives every flow its max-min fair rate: all rates grow together, and the flows over a link that
// is full stop growing.
class FairShare {
 public:
  explicit FairShare(const std::vector<NetworkLink>& links)
      : links_(links), left_(links.size()), weight_(links.size()), users_(links.size()) {}

  void share(std::vector<Flow>& flows) {
    for (const uint32_t link : used_) {
      weight_[link] = 0;
      users_[link].clear();
    }
    used_.clear();
    frozen_.assign(flows.size(), false);
    for (uint32_t f = 0; f < flows.size(); ++f)
      for (const RouteShare& part : flows[f].route->shares) {
        if (users_[part.link].empty()) used_.push_back(part.link);
        left_[part.link] = links_[part.link].bytes_per_s;
        weight_[part.link] += part.share;
        users_[part.link].push_back(f);
      }
    double rate = 0;
    for (size_t frozen = 0; frozen < flows.size();) {
      const double growth = smallest_growth();
      rate += growth;
      std::vector<uint32_t> full;
      for (const uint32_t link : used_) {
        if (weight_[link] <= kSame) continue;
        left_[link] -= growth * weight_[link];
        if (left_[link] <= links_[link].bytes_per_s * kSame) full.push_back(link);
      }
      for (const uint32_t link : full)
        for (const uint32_t f : users_[link]) frozen += freeze(flows[f], f, rate);
    }
  }

 private:
  double smallest_growth() const {
    double growth = std::numeric_limits<double>::infinity();
    for (const uint32_t link : used_)
      if (weight_[link] > kSame) growth = std::min(growth, left_[link] / weight_[link]);
    return growth;
  }

  size_t freeze(Flow& flow, uint32_t f, double rate) {
    if (frozen_[f]) return 0;
    frozen_[f] = true;
    flow.rate = rate;
    for (const RouteShare& part : flow.route->shares) weight_[part.link] -= part.share;
    return 1;
  }

  const std::vector<NetworkLink>& links_;
  std::vector<double> left_, weight_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<uint32_t> used_;  // links that carry something
  std::vector<bool> frozen_;
};

template <class Run, class RouteOf>
class FlowLoop {
 public:
  // Of thousands of chips, what happens almost `together` happens together.
  FlowLoop(const std::vector<NetworkLink>& links, Run& run, RouteOf route_of, bool together)
      : links_(links),
        fair_(links),
        run_(run),
        route_of_(std::move(route_of)),
        together_(together),
        users_(links.size()) {
    result_.link_bytes.assign(links.size(), 0);
  }

  Prediction run() {
    start_flows();
    while (!flows_.empty() || !arrivals_.empty() || !departures_.empty()) {
      if (changed_) fair_.share(flows_);
      changed_ = false;
      advance_to(next_time());
    }
    result_.seconds = now_;
    return std::move(result_);
  }

 private:
  double next_time() const {
    double next = std::numeric_limits<double>::infinity();
    for (const Flow& flow : flows_) next = std::min(next, now_ + flow.bytes_left / flow.rate);
    if (!arrivals_.empty()) next = std::min(next, arrivals_.top().time);
    if (!departures_.empty()) next = std::min(next, departures_.top().time);
    if (!together_) return next;
    // What ends almost together ends with the last of it.
    double last = next;
    for (const Flow& flow : flows_) {
      const double end = now_ + flow.bytes_left / flow.rate;
      if (end <= next * (1 + kAlmost)) last = std::max(last, end);
    }
    return last;
  }

  // Thousands of chips, whose blocks differ by an element, would end one by one. What happens
  // almost together shall happen together, and later than it would, so that no bound is beaten: at
  // most kAlmost of the time for each step in sequence.
  double late(double time) const {
    if (!together_ || time <= 0) return time;
    const double tick = std::exp2(std::floor(std::log2(time * kAlmost)));
    return std::ceil(time / tick) * tick;
  }

  void advance_to(double time) {
    const double passed = time - now_;
    now_ = time;
    std::vector<Flow> ended;
    for (size_t f = 0; f < flows_.size();) {
      Flow& flow = flows_[f];
      flow.bytes_left -= flow.rate * passed;
      // What is left may be too little for the clock to move at all.
      const double least_bytes = std::max(kSame * flow.put.bytes, flow.rate * now_ * kTick);
      if (flow.bytes_left > least_bytes) {
        ++f;
        continue;
      }
      ended.push_back(flow);
      flow = flows_.back();
      flows_.pop_back();
    }
    changed_ |= !ended.empty();
    for (const Flow& flow : ended) {
      for (const RouteShare& part : flow.route->shares) users_[part.link] -= part.share;
      arrivals_.push({late(now_ + flow.route->latency_s - flow.put.behind_s), flow.put});
      run_.left(flow.put);
    }
    while (!arrivals_.empty() && arrivals_.top().time <= now_ * (1 + kSame)) {
      const ProgramRun::Put put = arrivals_.top().put;
      arrivals_.pop();
      run_.arrived(put);
    }
    start_flows();
    for (; !departures_.empty() && departures_.top().time <= now_ * (1 + kSame); departures_.pop())
      begin(departures_.top().flow);
  }

  void start_flows() {
    const std::vector<ProgramRun::Put> puts = run_.take_startable();
    for (const ProgramRun::Put& put : puts)
      for (const RouteShare& part : route_of_(put).shares) {
        users_[part.link] += part.share;
        result_.link_bytes[part.link] += part.share * put.bytes;
      }
    for (const ProgramRun::Put& put : puts) {
      Flow flow{put, put.bytes, 0, &route_of_(put)};
      flow.put.behind_s = std::max(put.behind_s, before_narrow(*flow.route));
      if (flow.put.behind_s <= put.behind_s)
        begin(flow);
      else
        departures_.push({late(now_ + flow.put.behind_s - put.behind_s), flow});
    }
  }

  // The latency to the first link that is narrow for it.
  double before_narrow(const Route& route) const {
    double busiest = 0;
    for (const RouteShare& part : route.shares) busiest = std::max(busiest, busy(part.link));
    double before_s = route.latency_s;
    for (const RouteShare& part : route.shares)
      if (busy(part.link) >= kNarrow * busiest) before_s = std::min(before_s, part.before_s);
    return before_s;
  }
  double busy(uint32_t link) const { return users_[link] / links_[link].bytes_per_s; }

  void begin(const Flow& flow) {
    flows_.push_back(flow);
    changed_ = true;
  }

  const std::vector<NetworkLink>& links_;
  FairShare fair_;
  Run& run_;
  RouteOf route_of_;
  bool together_;
  double now_ = 0;
  bool changed_ = false;
  std::vector<Flow> flows_;
  std::vector<double> users_;  // shares of flows that are under way, or on their way
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  Prediction result_;
};

}  // namespace weft::collective
