// SPDX-License-Identifier: BSD-3-Clause
// The flow model: a small event loop over flows that end and messages that arrive.
#include "lib/collective/model/flow_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "lib/collective/model/program_run.hpp"

namespace weft::collective {
namespace {

constexpr double kTick = 1e-12;  // relative: no shorter time counts
constexpr double kSame = 1e-9;   // relative: what ends within it ends together
constexpr double kAlmost = 1e-5;
constexpr uint32_t kFew = 2048;  // chips

struct Flow {
  ProgramRun::Put put;
  double bytes_left = 0;
  double rate = 0;
  const Route* route = nullptr;
};

struct Arrival {
  double time = 0;
  uint32_t from = 0, to = 0;
  bool operator>(const Arrival& other) const { return time > other.time; }
};

// Gives every flow its max-min fair rate: all rates grow together, and the flows over a link that
// is full stop growing.
class FairShare {
 public:
  explicit FairShare(const Topology& topology)
      : topology_(topology),
        left_(topology.links.size()),
        weight_(topology.links.size()),
        users_(topology.links.size()) {}

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
        left_[part.link] = topology_.links[part.link].bytes_per_s;
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
        if (left_[link] <= topology_.links[link].bytes_per_s * kSame) full.push_back(link);
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

  const Topology& topology_;
  std::vector<double> left_, weight_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<uint32_t> used_;  // links that carry something
  std::vector<bool> frozen_;
};

class Model {
 public:
  Model(const Shape& shape, const std::vector<Program>& programs, double element,
        double accumulator, const Topology& topology, Routes& routes)
      : topology_(topology),
        routes_(routes),
        fair_(topology),
        run_(shape, programs, element, accumulator) {
    result_.link_bytes.assign(topology.links.size(), 0);
  }

  Prediction run() {
    start_flows();
    while (!flows_.empty() || !arrivals_.empty()) {
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
    if (topology_.chips <= kFew) return next;
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
    if (topology_.chips <= kFew || time <= 0) return time;
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
      arrivals_.push({late(now_ + flow.route->latency_s), flow.put.from, flow.put.to});
      run_.left(flow.put);
    }
    while (!arrivals_.empty() && arrivals_.top().time <= now_ * (1 + kSame)) {
      const Arrival arrival = arrivals_.top();
      arrivals_.pop();
      run_.arrived(arrival.from, arrival.to);
    }
    start_flows();
  }

  void start_flows() {
    for (const ProgramRun::Put& put : run_.take_startable()) {
      const Flow flow{put, put.bytes, 0, &routes_.between(put.from, put.to, put.along)};
      for (const RouteShare& part : flow.route->shares)
        result_.link_bytes[part.link] += part.share * put.bytes;
      flows_.push_back(flow);
      changed_ = true;
    }
  }

  const Topology& topology_;
  Routes& routes_;
  FairShare fair_;
  ProgramRun run_;
  double now_ = 0;
  bool changed_ = false;
  std::vector<Flow> flows_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  Prediction result_;
};

// The least that must go from `inside` chips to the `outside` ones.
double crossing(Collective collective, double bytes, double inside, double outside) {
  const double n = inside + outside;
  switch (collective) {
    case Collective::all_to_all:
      return bytes * inside * outside / n;
    case Collective::all_gather:
      return bytes * inside / n;
    case Collective::reduce_scatter:
      return bytes * outside / n;
    case Collective::all_reduce:
      // Into and out of one chip: its share of a reduce-scatter and of an all-gather.
      return inside == 1 || outside == 1 ? 2 * bytes * (n - 1) / n : bytes;
    default:
      return bytes;
  }
}

}  // namespace

Prediction predict(const Shape& shape, const std::vector<Program>& programs, double element,
                   double accumulator, const Topology& topology, Routes& routes) {
  return Model(shape, programs, element, accumulator, topology, routes).run();
}

Bound lower_bound(Collective collective, double bytes, const Topology& topology) {
  Bound bound;
  for (const Cut& cut : topology.cuts)
    for (const bool reversed : {false, true}) {
      Cut side = cut;
      if (reversed) side.inside.flip();
      const double inside =
          static_cast<double>(std::count(side.inside.begin(), side.inside.end(), true));
      const double seconds =
          crossing(collective, bytes, inside, topology.chips - inside) / capacity(topology, side);
      if (seconds > bound.seconds) bound = {seconds, cut.name};
    }
  return bound;
}

}  // namespace weft::collective
