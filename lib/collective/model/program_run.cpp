// SPDX-License-Identifier: BSD-3-Clause
// Which steps are done, and which may start then.
#include "lib/collective/model/program_run.hpp"

#include <algorithm>

namespace weft::collective {

ProgramRun::ProgramRun(const Shape& shape, const std::vector<Program>& programs, double element,
                       double accumulator)
    : shape_(shape), element_(element), accumulator_(accumulator), pairs_(shape.ranks) {
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    plans_.push_back(make_plan(shape, programs[rank]));
    waits_.push_back(plans_[rank]->initial);
    steps_left_ += programs[rank].steps.size();
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

// Made when first asked for, in the constructor; later references stay.
ProgramRun::Pair& ProgramRun::pair(uint32_t from, uint32_t to) {
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

void ProgramRun::start_put(uint32_t from, uint32_t to, double behind_s) {
  Pair& of = pair(from, to);
  if (of.busy || of.puts == nullptr || of.next_put == of.puts->size()) return;
  const uint32_t step = (*of.puts)[of.next_put];
  if (waits_[from][step] != 0) return;
  ++of.next_put;
  of.busy = true;
  startable_.push_back(
      {from, to, step, bytes_of(from, step), plans_[from]->program.steps[step].along, behind_s});
}

void ProgramRun::left(const Put& put) {
  pair(put.from, put.to).busy = false;
  // What has waited for this one alone follows at once.
  start_put(put.from, put.to, put.behind_s);
  finish(put.from, put.step);
}

void ProgramRun::arrived(uint32_t from, uint32_t to) {
  ++pair(from, to).arrived;
  take_arrived(from, to);
}

void ProgramRun::take_arrived(uint32_t from, uint32_t to) {
  Pair& of = pair(from, to);  // stays where it is
  while (of.arrived > 0 && of.receives != nullptr && of.next_receive < of.receives->size() &&
         waits_[to][(*of.receives)[of.next_receive]] == 0) {
    --of.arrived;
    finish(to, (*of.receives)[of.next_receive++]);
  }
}

// A step is done: those that waited for it may start. A worklist, for chains may be long.
void ProgramRun::finish(uint32_t rank, uint32_t first) {
  std::vector<uint32_t> done = {first};
  const Plan& plan = *plans_[rank];
  while (!done.empty()) {
    const uint32_t step = done.back();
    done.pop_back();
    --steps_left_;
    for (uint32_t i = plan.first_follower[step]; i < plan.first_follower[step + 1]; ++i) {
      const uint32_t follower = plan.followers[i];
      if (--waits_[rank][follower] != 0) continue;
      const Step& next = plan.program.steps[follower];
      if (next.kind == StepKind::put)
        start_put(rank, next.peer);
      else if (is_receive(next.kind))
        take_arrived(next.peer, rank);
      else
        done.push_back(follower);
    }
  }
}

}  // namespace weft::collective
