// SPDX-License-Identifier: BSD-3-Clause
// Which steps are done, and which may start then.
#include "lib/collective/model/program_run.hpp"

namespace weft::collective {

ProgramRun::ProgramRun(const Shape& shape, const std::vector<Program>& programs, double element,
                       double accumulator)
    : shape_(shape),
      element_(element),
      accumulator_(accumulator),
      ranks_(shape.ranks),
      arrived_(size_t{ranks_} * ranks_),
      puts_(size_t{ranks_} * ranks_),
      receives_(size_t{ranks_} * ranks_),
      busy_(size_t{ranks_} * ranks_) {
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    plans_.push_back(make_plan(shape, programs[rank]));
    waits_.push_back(plans_[rank]->waits);
    steps_left_ += programs[rank].steps.size();
    for (const PeerSteps& of_peer : plans_[rank]->puts)
      puts_[pair(rank, of_peer.peer)].assign(of_peer.steps.begin(), of_peer.steps.end());
    for (const PeerSteps& of_peer : plans_[rank]->receives)
      receives_[pair(of_peer.peer, rank)].assign(of_peer.steps.begin(), of_peer.steps.end());
  }
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    for (const uint32_t step : plans_[rank]->local) finish(rank, step);
    for (uint32_t peer = 0; peer < ranks_; ++peer) start_put(rank, peer);
  }
}

double ProgramRun::bytes_of(uint32_t rank, uint32_t step) const {
  const Range& source = plans_[rank]->program.steps[step].source;
  return static_cast<double>(source.count) * (is_wide(shape_, source) ? accumulator_ : element_);
}

void ProgramRun::start_put(uint32_t from, uint32_t to) {
  const size_t link = pair(from, to);
  if (busy_[link] || puts_[link].empty() || waits_[from][puts_[link].front()] != 0) return;
  const uint32_t step = puts_[link].front();
  puts_[link].pop_front();
  busy_[link] = true;
  startable_.push_back({from, to, step, bytes_of(from, step)});
}

void ProgramRun::left(const Put& put) {
  busy_[pair(put.from, put.to)] = false;
  finish(put.from, put.step);
  start_put(put.from, put.to);
}

void ProgramRun::arrived(uint32_t from, uint32_t to) {
  ++arrived_[pair(from, to)];
  take_arrived(from, to);
}

void ProgramRun::take_arrived(uint32_t from, uint32_t to) {
  const size_t link = pair(from, to);
  while (arrived_[link] > 0 && !receives_[link].empty() &&
         waits_[to][receives_[link].front()] == 0) {
    const uint32_t step = receives_[link].front();
    receives_[link].pop_front();
    --arrived_[link];
    finish(to, step);
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
