// SPDX-License-Identifier: BSD-3-Clause
// Completes steps and starts those that depended on them.
#include "lib/collective/model/program_run.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::collective {

ProgramRun::ProgramRun(const Shape& shape, const std::vector<Program>& programs, double element,
                       double accumulator)
    : shape_(shape), element_(element), accumulator_(accumulator), pairs_(shape.ranks) {
  WEFT_DCHECK(programs.size() == shape.ranks && element > 0 && accumulator >= element);
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    plans_.push_back(make_plan(shape, programs[rank]));
    pending_dependencies_.push_back(plans_[rank]->initial);
    steps_remaining_ += programs[rank].steps.size();
    for (const PeerSteps& of_peer : plans_[rank]->puts)
      pair(rank, of_peer.peer).puts = &of_peer.steps;
    for (const PeerSteps& of_peer : plans_[rank]->receives)
      pair(of_peer.peer, rank).receives = &of_peer.steps;
  }
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    for (const uint32_t step : plans_[rank]->local) finish(rank, step);
    for (const PeerSteps& of_peer : plans_[rank]->puts) start_put(rank, of_peer.peer);
  }
}

// Creates the pair on first use, in the constructor only; later references stay valid.
ProgramRun::Pair& ProgramRun::pair(uint32_t from, uint32_t to) {
  WEFT_DCHECK(from < shape_.ranks && to < shape_.ranks);
  std::vector<Pair>& of = pairs_[from];
  const auto at = std::lower_bound(of.begin(), of.end(), to,
                                   [](const Pair& pair, uint32_t rank) { return pair.to < rank; });
  if (at != of.end() && at->to == to) return *at;
  return *of.insert(at, Pair{.to = to});
}

double ProgramRun::bytes_of(uint32_t rank, uint32_t step) const {
  const Range& source = plans_[rank]->program.steps[step].source;
  return static_cast<double>(source.count) * (is_wide(shape_, source) ? accumulator_ : element_);
}

void ProgramRun::start_put(uint32_t from, uint32_t to, double travelled_s) {
  Pair& of = pair(from, to);
  if (of.busy || of.puts == nullptr || of.next_put == of.puts->size()) return;
  const uint32_t step = (*of.puts)[of.next_put];
  if (pending_dependencies_[from][step] != 0) return;
  WEFT_DCHECK(plans_[from]->program.steps[step].kind == StepKind::put);
  ++of.next_put;
  of.busy = true;
  ready_puts_.push_back({from, to, step, bytes_of(from, step),
                         plans_[from]->program.steps[step].dimension, travelled_s});
}

void ProgramRun::on_sent(const Put& put) {
  WEFT_DCHECK(pair(put.from, put.to).busy && put.travelled_s >= 0);
  pair(put.from, put.to).busy = false;
  // A put that waited for this one only follows at once.
  start_put(put.from, put.to, put.travelled_s);
  finish(put.from, put.step);
}

void ProgramRun::on_arrived(uint32_t from, uint32_t to) {
  WEFT_DCHECK(from != to && pair(from, to).receives != nullptr);
  ++pair(from, to).arrived;
  run_receives(from, to);
}

void ProgramRun::run_receives(uint32_t from, uint32_t to) {
  Pair& of = pair(from, to);  // reference stays valid: no pair is added after construction
  while (of.arrived > 0 && of.receives != nullptr && of.next_receive < of.receives->size() &&
         pending_dependencies_[to][(*of.receives)[of.next_receive]] == 0) {
    --of.arrived;
    finish(to, (*of.receives)[of.next_receive++]);
  }
}

// Completes a step and starts its followers; iterative, because chains may be long.
void ProgramRun::finish(uint32_t rank, uint32_t first) {
  std::vector<uint32_t> done = {first};
  const Plan& plan = *plans_[rank];
  while (!done.empty()) {
    const uint32_t step = done.back();
    done.pop_back();
    WEFT_DCHECK(steps_remaining_ > 0);
    --steps_remaining_;
    for (uint32_t i = plan.first_follower[step]; i < plan.first_follower[step + 1]; ++i) {
      const uint32_t follower = plan.followers[i];
      WEFT_DCHECK(follower > step && pending_dependencies_[rank][follower] > 0);
      if (--pending_dependencies_[rank][follower] != 0) continue;
      const Step& next = plan.program.steps[follower];
      if (next.kind == StepKind::put)
        start_put(rank, next.peer);
      else if (is_receive(next.kind))
        run_receives(next.peer, rank);
      else
        done.push_back(follower);
    }
  }
}

}  // namespace weft::collective
