// SPDX-License-Identifier: BSD-3-Clause
// Compares all ranks with rank 0, groups links, and runs rank 0's program in the flow model.
#include "lib/collective/model/symmetric.hpp"

#include <cmath>
#include <unordered_map>

#include "lib/base/check.hpp"
#include "lib/collective/model/flow_loop.hpp"

namespace weft::collective {
namespace {

// Sums of these hashes identify sets: two different sets collide with a probability of 2^-64.
uint64_t hash_of(uint64_t a, uint64_t b, uint64_t c = 0, uint64_t d = 0) {
  uint64_t hash = 0x9E3779B97F4A7C15;
  for (const uint64_t each : {a, b, c, d}) {
    hash = (hash ^ each) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 29;
    hash *= 0x94D049BB133111EB;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t hash_of_share(uint64_t step, double share) {
  return hash_of(step, static_cast<uint64_t>(std::llround(share * (1 << 30))));
}

// For each put or receive: its index among the puts to, or receives from, the same peer.
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

bool same_structure(const Program& a, const Program& b) {
  if (a.steps.size() != b.steps.size() || a.dependencies != b.dependencies ||
      a.first_dependency != b.first_dependency)
    return false;
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (a.steps[i].kind != b.steps[i].kind || a.steps[i].dimension != b.steps[i].dimension)
      return false;
  return true;
}

class SymmetryCheck {
 public:
  SymmetryCheck(const Algorithm& algorithm, const Shape& shape, double element, double accumulator,
                const Topology& topology, Routes& routes)
      : algorithm_(algorithm),
        shape_(shape),
        element_(element),
        accumulator_(accumulator),
        topology_(topology),
        routes_(routes),
        first_(program_of(algorithm, shape, 0)),
        bytes_(first_.steps.size()),
        load_hash_(topology.links.size()) {}

  // Returns false if the schedule is not symmetric.
  bool run() {
    match_first();
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
      if (!add_rank(rank)) return false;
    if (unmatched_ != 0) return false;
    group_links();
    for (uint32_t rank = 1; rank < shape_.ranks; ++rank)
      for (size_t put = 0; put < puts_.size(); ++put)
        if (route_hash(rank, put) != route_hash(0, put)) return false;
    return true;
  }

  const Program& program() const { return first_; }
  const std::vector<double>& bytes() const { return bytes_; }
  // Per put, the index of the receive that matches it.
  const std::vector<uint32_t>& receive_of() const { return receive_of_; }
  const std::vector<NetworkLink>& links() const { return group_links_; }
  const std::vector<uint32_t>& group_of() const { return group_of_; }

  // The load of a step, of all ranks together, on a link of each group.
  Route route(uint32_t step) {
    Route route = route_of(0, step);
    for (RouteShare& part : route.shares) {
      WEFT_DCHECK(group_size_[group_of_[part.link]] > 0);
      part.link = group_of_[part.link];
      part.share *= shape_.ranks / group_size_[part.link];
    }
    return route;
  }

 private:
  // Finds for each put of rank 0 the matching receive of the peer.
  void match_first() {
    const std::vector<uint32_t>& ordinal = first_ordinals_ = ordinals(first_);
    receive_of_.resize(first_.steps.size());
    std::unordered_map<uint32_t, std::unordered_map<uint32_t, uint32_t>>
        receive_at;  // peer, ordinal
    for (uint32_t i = 0; i < first_.steps.size(); ++i) {
      if (first_.steps[i].kind != StepKind::put) continue;
      puts_.push_back(i);
      const uint32_t peer = first_.steps[i].peer;
      if (receive_at.count(peer) == 0) {
        const Program peer_program = program_of(algorithm_, shape_, peer);
        const std::vector<uint32_t> peer_ordinals = ordinals(peer_program);
        for (uint32_t j = 0; j < peer_program.steps.size(); ++j)
          if (is_receive(peer_program.steps[j].kind) && peer_program.steps[j].peer == 0)
            receive_at[peer][peer_ordinals[j]] = j;
      }
      receive_of_[i] = receive_at[peer][ordinal[i]];
    }
  }

  // True if steps share a peer, in each direction, exactly where rank 0's steps do.
  bool same_peers(const Program& program) const {
    std::unordered_map<uint64_t, uint32_t> first_rank_peer;  // by rank 0's peer and direction
    for (uint32_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      if (is_local(step.kind)) continue;
      const uint64_t key = uint64_t{first_.steps[i].peer} << 1 | (step.kind == StepKind::put);
      if (first_rank_peer.try_emplace(key, step.peer).first->second != step.peer) return false;
    }
    return true;
  }

  bool add_rank(uint32_t rank) {
    const Program program = rank == 0 ? first_ : program_of(algorithm_, shape_, rank);
    if (!same_structure(program, first_)) return false;
    const std::vector<uint32_t> ordinal = ordinals(program);
    if (ordinal != first_ordinals_ || !same_peers(program)) return false;
    for (uint32_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      const double each = is_wide(shape_, step.source) ? accumulator_ : element_;
      if (is_receive(step.kind)) unmatched_ -= hash_of(step.peer, rank, ordinal[i], i);
      if (step.kind != StepKind::put) continue;
      bytes_[i] = std::max(bytes_[i], each * static_cast<double>(step.source.count));
      unmatched_ += hash_of(rank, step.peer, ordinal[i], receive_of_[i]);
      peers_.push_back(step.peer);
      for (const RouteShare& part : route_of(rank, i).shares)
        load_hash_[part.link] += hash_of_share(i, part.share);
    }
    return true;
  }

  const Route& route_of(uint32_t rank, uint32_t step) {
    const auto put = std::lower_bound(puts_.begin(), puts_.end(), step) - puts_.begin();
    WEFT_DCHECK(puts_[static_cast<size_t>(put)] == step);
    return routes_.between(rank, peers_[rank * puts_.size() + static_cast<size_t>(put)],
                           first_.steps[step].dimension);
  }

  // Groups links of the same rate that carry the same load in every step.
  void group_links() {
    std::unordered_map<uint64_t, uint32_t> group_of_key;
    for (uint32_t link = 0; link < topology_.links.size(); ++link) {
      const NetworkLink& each = topology_.links[link];
      const uint64_t key =
          hash_of(load_hash_[link], static_cast<uint64_t>(std::llround(each.bytes_per_s)));
      const auto [at, is_new] =
          group_of_key.insert({key, static_cast<uint32_t>(group_links_.size())});
      if (is_new) {
        group_links_.push_back(each);
        group_size_.push_back(0);
      }
      group_of_.push_back(at->second);
      group_size_[at->second] += 1;
    }
  }

  uint64_t route_hash(uint32_t rank, size_t put) {
    const Route& route = route_of(rank, puts_[put]);
    uint64_t sum = static_cast<uint64_t>(std::llround(route.latency_s * 1e15));
    for (const RouteShare& part : route.shares)
      sum += hash_of(hash_of_share(group_of_[part.link], part.share),
                     static_cast<uint64_t>(std::llround(part.before_s * 1e15)));
    return sum;
  }

  const Algorithm& algorithm_;
  const Shape& shape_;
  double element_, accumulator_;
  const Topology& topology_;
  Routes& routes_;
  std::vector<uint32_t> first_ordinals_;
  Program first_;
  std::vector<double> bytes_;  // per step
  std::vector<uint32_t> puts_, receive_of_;
  std::vector<uint32_t> peers_;  // of the puts of all ranks
  uint64_t unmatched_ = 0;       // hash sum of puts minus matching receives: 0 at the end
  std::vector<uint64_t> load_hash_;
  std::vector<NetworkLink> group_links_;
  std::vector<uint32_t> group_of_;
  std::vector<double> group_size_;
};

// Rank 0's program. Its own puts arrive at itself, in place of the puts of its peers.
class RepresentativeRun {
 public:
  RepresentativeRun(const Shape& shape, const SymmetryCheck& check)
      : check_(check),
        plan_(make_plan(shape, check.program())),
        pending_dependencies_(plan_->initial),
        arrived_(pending_dependencies_.size()),
        channel_of_(pending_dependencies_.size()) {
    for (const std::vector<PeerSteps>* of : {&plan_->puts, &plan_->receives})
      for (const PeerSteps& of_peer : *of) {
        for (const uint32_t step : of_peer.steps)
          channel_of_[step] = static_cast<uint32_t>(channels_.size());
        channels_.push_back({&of_peer.steps});
      }
    for (const uint32_t step : plan_->local) finish(step);
    for (size_t i = 0; i < plan_->puts.size(); ++i) start_put(channels_[i]);
  }

  std::vector<ProgramRun::Put> take_ready_puts() { return std::exchange(ready_puts_, {}); }
  void on_sent(const ProgramRun::Put& put) {
    channels_[channel_of_[put.step]].busy = false;
    start_put(channels_[channel_of_[put.step]], put.travelled_s);
    finish(put.step);
  }
  void on_arrived(const ProgramRun::Put& put) {
    const uint32_t receive = check_.receive_of()[put.step];
    WEFT_DCHECK(!arrived_[receive]);
    arrived_[receive] = true;
    run_receives(channels_[channel_of_[receive]]);
  }

 private:
  struct Channel {  // puts to one peer, or receives from one peer
    const std::vector<uint32_t>* steps;
    size_t next = 0;
    bool busy = false;
  };

  void start_put(Channel& channel, double travelled_s = 0) {
    if (channel.busy || channel.next == channel.steps->size()) return;
    const uint32_t step = (*channel.steps)[channel.next];
    if (pending_dependencies_[step] != 0) return;
    WEFT_DCHECK(check_.bytes()[step] > 0);
    ++channel.next;
    channel.busy = true;
    ready_puts_.push_back({0, 0, step, check_.bytes()[step], kAnyDimension, travelled_s});
  }
  void run_receives(Channel& channel) {
    while (channel.next < channel.steps->size()) {
      const uint32_t step = (*channel.steps)[channel.next];
      if (pending_dependencies_[step] != 0 || !arrived_[step]) return;
      ++channel.next;
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
        WEFT_DCHECK(follower > step && pending_dependencies_[follower] > 0);
        if (--pending_dependencies_[follower] != 0) continue;
        const StepKind kind = plan_->program.steps[follower].kind;
        if (kind == StepKind::put)
          start_put(channels_[channel_of_[follower]]);
        else if (is_receive(kind))
          run_receives(channels_[channel_of_[follower]]);
        else
          done.push_back(follower);
      }
    }
  }

  const SymmetryCheck& check_;
  std::shared_ptr<const Plan> plan_;
  std::vector<uint32_t> pending_dependencies_;
  std::vector<bool> arrived_;
  std::vector<uint32_t> channel_of_;  // per step
  std::vector<Channel> channels_;     // of puts, then of receives
  std::vector<ProgramRun::Put> ready_puts_;
};

}  // namespace

std::optional<Prediction> predict_symmetric(const Algorithm& algorithm, const Shape& shape,
                                            double element, double accumulator,
                                            const Topology& topology, Routes& routes) {
  SymmetryCheck check(algorithm, shape, element, accumulator, topology, routes);
  if (!check.run()) return std::nullopt;
  std::unordered_map<uint32_t, Route> routes_by_step;
  const auto route_of = [&](const ProgramRun::Put& put) -> const Route& {
    const auto at = routes_by_step.find(put.step);
    return at != routes_by_step.end() ? at->second
                                      : routes_by_step[put.step] = check.route(put.step);
  };
  RepresentativeRun run(shape, check);
  Prediction group_prediction = FlowLoop(check.links(), run, route_of, false).run();
  Prediction prediction{group_prediction.seconds, {}};
  for (const uint32_t group : check.group_of())
    prediction.link_bytes.push_back(group_prediction.link_bytes[group]);
  return prediction;
}

}  // namespace weft::collective
