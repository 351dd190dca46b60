// SPDX-License-Identifier: BSD-3-Clause
// Comparing all ranks with the first, grouping links, and the run of the one rank.
#include "lib/collective/model/alike.hpp"

#include <cmath>
#include <unordered_map>

#include "lib/collective/model/flow_loop.hpp"

namespace weft::collective {
namespace {

// Sums of these tell sets apart: two different ones have the same sum once in 2^64.
uint64_t mixed(uint64_t a, uint64_t b, uint64_t c = 0, uint64_t d = 0) {
  uint64_t hash = 0x9E3779B97F4A7C15;
  for (const uint64_t each : {a, b, c, d}) {
    hash = (hash ^ each) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 29;
    hash *= 0x94D049BB133111EB;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t mixed_share(uint64_t step, double share) {
  return mixed(step, static_cast<uint64_t>(std::llround(share * (1 << 30))));
}

// For each step that puts or receives: the how many-th it is of those with its peer.
std::vector<uint32_t> ordinals(const Program& program) {
  std::unordered_map<uint64_t, uint32_t> seen;
  std::vector<uint32_t> ordinal(program.steps.size());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (!is_local(step.kind))
      ordinal[i] = seen[uint64_t{step.peer} << 1 | (step.kind == StepKind::put ? 1 : 0)]++;
  }
  return ordinal;
}

bool is_same(const Program& a, const Program& b) {
  if (a.steps.size() != b.steps.size() || a.dependencies != b.dependencies ||
      a.first_dependency != b.first_dependency)
    return false;
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (a.steps[i].kind != b.steps[i].kind || a.steps[i].along != b.steps[i].along) return false;
  return true;
}

class Alike {
 public:
  Alike(const Algorithm& algorithm, const Shape& shape, double element, double accumulator,
        const Topology& topology, Routes& routes)
      : algorithm_(algorithm),
        shape_(shape),
        element_(element),
        accumulator_(accumulator),
        topology_(topology),
        routes_(routes),
        first_(program_of(algorithm, shape, 0)),
        bytes_(first_.steps.size()),
        loads_(topology.links.size()) {}

  // False if ranks are not alike.
  bool look() {
    match_first();
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
      if (!look_at(rank)) return false;
    if (met_ != 0) return false;
    group_links();
    for (uint32_t rank = 1; rank < shape_.ranks; ++rank)
      for (size_t put = 0; put < puts_.size(); ++put)
        if (profile(rank, put) != profile(0, put)) return false;
    return true;
  }

  const Program& program() const { return first_; }
  const std::vector<double>& bytes() const { return bytes_; }
  // The receive that takes what a step puts.
  const std::vector<uint32_t>& receive_of() const { return receive_of_; }
  const std::vector<NetworkLink>& links() const { return groups_; }
  const std::vector<uint32_t>& group_of() const { return group_of_; }

  // What a step puts on a link of each group, by all ranks together.
  Route route(uint32_t step) {
    Route route = route_of(0, step);
    for (RouteShare& part : route.shares) {
      part.link = group_of_[part.link];
      part.share *= shape_.ranks / members_[part.link];
    }
    return route;
  }

 private:
  // Which receive of the first rank's peers takes each of its puts.
  void match_first() {
    const std::vector<uint32_t>& ordinal = ordinals_of_first_ = ordinals(first_);
    receive_of_.resize(first_.steps.size());
    std::unordered_map<uint32_t, std::unordered_map<uint32_t, uint32_t>> taken;  // peer, ordinal
    for (uint32_t i = 0; i < first_.steps.size(); ++i) {
      if (first_.steps[i].kind != StepKind::put) continue;
      puts_.push_back(i);
      const uint32_t peer = first_.steps[i].peer;
      if (taken.count(peer) == 0) {
        const Program theirs = program_of(algorithm_, shape_, peer);
        const std::vector<uint32_t> of_theirs = ordinals(theirs);
        for (uint32_t j = 0; j < theirs.steps.size(); ++j)
          if (is_receive(theirs.steps[j].kind) && theirs.steps[j].peer == 0)
            taken[peer][of_theirs[j]] = j;
      }
      receive_of_[i] = taken[peer][ordinal[i]];
    }
  }

  // Steps that share a peer, each way, are those that share one on the first rank.
  bool same_peers(const Program& program) const {
    std::unordered_map<uint64_t, uint32_t> stands_for;  // the first rank's peer, each way
    for (uint32_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      if (is_local(step.kind)) continue;
      const uint64_t key = uint64_t{first_.steps[i].peer} << 1 | (step.kind == StepKind::put);
      if (stands_for.try_emplace(key, step.peer).first->second != step.peer) return false;
    }
    return true;
  }

  bool look_at(uint32_t rank) {
    const Program program = rank == 0 ? first_ : program_of(algorithm_, shape_, rank);
    if (!is_same(program, first_)) return false;
    const std::vector<uint32_t> ordinal = ordinals(program);
    if (ordinal != ordinals_of_first_ || !same_peers(program)) return false;
    for (uint32_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      const double each = is_wide(shape_, step.source) ? accumulator_ : element_;
      if (is_receive(step.kind)) met_ -= mixed(step.peer, rank, ordinal[i], i);
      if (step.kind != StepKind::put) continue;
      bytes_[i] = std::max(bytes_[i], each * static_cast<double>(step.source.count));
      met_ += mixed(rank, step.peer, ordinal[i], receive_of_[i]);
      peers_.push_back(step.peer);
      for (const RouteShare& part : route_of(rank, i).shares)
        loads_[part.link] += mixed_share(i, part.share);
    }
    return true;
  }

  const Route& route_of(uint32_t rank, uint32_t step) {
    const auto put = std::lower_bound(puts_.begin(), puts_.end(), step) - puts_.begin();
    return routes_.between(rank, peers_[rank * puts_.size() + static_cast<size_t>(put)],
                           first_.steps[step].along);
  }

  // Links of the same rate that carry as much of every step.
  void group_links() {
    std::unordered_map<uint64_t, uint32_t> known;
    for (uint32_t link = 0; link < topology_.links.size(); ++link) {
      const NetworkLink& each = topology_.links[link];
      const uint64_t key =
          mixed(loads_[link], static_cast<uint64_t>(std::llround(each.bytes_per_s)));
      const auto [at, is_new] = known.insert({key, static_cast<uint32_t>(groups_.size())});
      if (is_new) {
        groups_.push_back(each);
        members_.push_back(0);
      }
      group_of_.push_back(at->second);
      members_[at->second] += 1;
    }
  }

  uint64_t profile(uint32_t rank, size_t put) {
    const Route& route = route_of(rank, puts_[put]);
    uint64_t sum = static_cast<uint64_t>(std::llround(route.latency_s * 1e15));
    for (const RouteShare& part : route.shares)
      sum += mixed(mixed_share(group_of_[part.link], part.share),
                   static_cast<uint64_t>(std::llround(part.before_s * 1e15)));
    return sum;
  }

  const Algorithm& algorithm_;
  const Shape& shape_;
  double element_, accumulator_;
  const Topology& topology_;
  Routes& routes_;
  std::vector<uint32_t> ordinals_of_first_;
  Program first_;
  std::vector<double> bytes_;  // per step
  std::vector<uint32_t> puts_, receive_of_;
  std::vector<uint32_t> peers_;  // of all ranks' puts
  uint64_t met_ = 0;             // puts, less the receives that they meet
  std::vector<uint64_t> loads_;
  std::vector<NetworkLink> groups_;
  std::vector<uint32_t> group_of_;
  std::vector<double> members_;
};

// Rank 0's program; what it puts comes to itself, as if from the peer that puts it the same.
class OneRun {
 public:
  OneRun(const Shape& shape, const Alike& alike)
      : alike_(alike),
        plan_(make_plan(shape, alike.program())),
        waits_(plan_->initial),
        is_here_(waits_.size()),
        lane_(waits_.size()) {
    for (const std::vector<PeerSteps>* of : {&plan_->puts, &plan_->receives})
      for (const PeerSteps& of_peer : *of) {
        for (const uint32_t step : of_peer.steps)
          lane_[step] = static_cast<uint32_t>(lanes_.size());
        lanes_.push_back({&of_peer.steps});
      }
    for (const uint32_t step : plan_->local) finish(step);
    for (size_t i = 0; i < plan_->puts.size(); ++i) start_put(lanes_[i]);
  }

  std::vector<ProgramRun::Put> take_startable() { return std::exchange(startable_, {}); }
  void left(const ProgramRun::Put& put) {
    lanes_[lane_[put.step]].busy = false;
    start_put(lanes_[lane_[put.step]], put.behind_s);
    finish(put.step);
  }
  void arrived(const ProgramRun::Put& put) {
    const uint32_t receive = alike_.receive_of()[put.step];
    is_here_[receive] = true;
    take(lanes_[lane_[receive]]);
  }

 private:
  struct Lane {  // puts to a peer, or receives from one
    const std::vector<uint32_t>* steps;
    size_t next = 0;
    bool busy = false;
  };

  void start_put(Lane& lane, double behind_s = 0) {
    if (lane.busy || lane.next == lane.steps->size()) return;
    const uint32_t step = (*lane.steps)[lane.next];
    if (waits_[step] != 0) return;
    ++lane.next;
    lane.busy = true;
    startable_.push_back({0, 0, step, alike_.bytes()[step], kAnyWay, behind_s});
  }
  void take(Lane& lane) {
    while (lane.next < lane.steps->size()) {
      const uint32_t step = (*lane.steps)[lane.next];
      if (waits_[step] != 0 || !is_here_[step]) return;
      ++lane.next;
      finish(step);
    }
  }
  void finish(uint32_t first) {
    std::vector<uint32_t> done = {first};
    while (!done.empty()) {
      const uint32_t step = done.back();
      done.pop_back();
      for (uint32_t i = plan_->first_follower[step]; i < plan_->first_follower[step + 1]; ++i) {
        const uint32_t follower = plan_->followers[i];
        if (--waits_[follower] != 0) continue;
        const StepKind kind = plan_->program.steps[follower].kind;
        if (kind == StepKind::put)
          start_put(lanes_[lane_[follower]]);
        else if (is_receive(kind))
          take(lanes_[lane_[follower]]);
        else
          done.push_back(follower);
      }
    }
  }

  const Alike& alike_;
  std::shared_ptr<const Plan> plan_;
  std::vector<uint32_t> waits_;
  std::vector<bool> is_here_;
  std::vector<uint32_t> lane_;  // per step
  std::vector<Lane> lanes_;     // of puts, then of receives
  std::vector<ProgramRun::Put> startable_;
};

}  // namespace

std::optional<Prediction> predict_alike(const Algorithm& algorithm, const Shape& shape,
                                        double element, double accumulator,
                                        const Topology& topology, Routes& routes) {
  Alike alike(algorithm, shape, element, accumulator, topology, routes);
  if (!alike.look()) return std::nullopt;
  std::unordered_map<uint32_t, Route> known;
  const auto route_of = [&](const ProgramRun::Put& put) -> const Route& {
    const auto at = known.find(put.step);
    return at != known.end() ? at->second : known[put.step] = alike.route(put.step);
  };
  OneRun run(shape, alike);
  Prediction of_groups = FlowLoop(alike.links(), run, route_of, false).run();
  Prediction prediction{of_groups.seconds, {}};
  for (const uint32_t group : alike.group_of())
    prediction.link_bytes.push_back(of_groups.link_bytes[group]);
  return prediction;
}

}  // namespace weft::collective
