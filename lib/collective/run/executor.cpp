// SPDX-License-Identifier: BSD-3-Clause
// The executor: receives as pieces arrive, local steps as they become ready, puts as slots are
// free. Rendezvous: executor_rendezvous.cpp.
#include "lib/collective/run/executor.hpp"

#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {

const MemoryRegion* region_of(std::span<const MemoryRegion* const> regions,
                              std::span<const std::byte> memory) {
  for (const MemoryRegion* const region : regions) {
    const std::byte* const begin = static_cast<const std::byte*>(region->address());
    if (memory.data() >= begin && memory.data() + memory.size() <= begin + region->size())
      return region;
  }
  return nullptr;
}

Execution& Executor::prepare() {
  WEFT_DCHECK(!running());
  execution_.regions.clear();
  execution_.remote_writable.clear();
  return execution_;
}

void Executor::start() {
  WEFT_DCHECK(execution_.plan != nullptr && !mismatch_);
  const Plan& plan = *execution_.plan;
  state_ = plan.initial;
  local_ = plan.local;
  waits_ = state_.data();
  next_put_ = waits_ + plan.program.steps.size();
  next_receive_ = next_put_ + plan.puts.size();
  next_advertisement_ = next_receive_ + plan.receives.size();
  rendezvous_ = !plan.receives.empty() && links_[plan.receives.front().peer]->supports_rendezvous();
  awaits_advertisements_ = true;
  steps_left_ = plan.program.steps.size();
  WEFT_DCHECK(state_.size() == steps_left_ + plan.puts.size() + 2 * plan.receives.size());
  activity_at_start_ = activity_;
}

// Scans again if a step became ready that the scan had passed.
bool Executor::advance(uint64_t most) {
  if (!running()) return false;
  const Plan& plan = *execution_.plan;
  activity_limit_ = most > UINT64_MAX - activity_ ? UINT64_MAX : activity_ + most;
  const size_t puts = plan.puts.size(), receives = plan.receives.size();
  do {
    rescan_ = false;
    // Puts first: peers wait for them.
    for (size_t i = 0; i < puts; ++i) put_all(i);
    for (size_t i = 0; i < receives; ++i) receive_all(i);
    if (!local_.empty()) run_local();
    for (size_t i = 0; i < receives && rendezvous_; ++i) advertise_all(i);
  } while (rescan_ && steps_left_ > 0 && !mismatch_ && !limit_reached());
  if (steps_left_ > 0 || mismatch_) return false;
  stop();
  return true;
}

// Pieces to one peer in the whole call. Ranks may distribute the transfers of exchanges over calls
// differently, so there it is the rest of this transfer.
uint32_t Executor::pieces_of(const PeerSteps& of_peer, const Step& step) const {
  const bool alone = execution_.call.sequence == 0;
  return alone ? step.remaining_pieces : static_cast<uint32_t>(of_peer.steps.size());
}

// Consumes the pieces that have arrived from one peer whose steps are ready.
void Executor::receive_all(size_t i) {
  const PeerSteps& of_peer = execution_.plan->receives[i];
  Link& link = *links_[of_peer.peer];
  while (next_receive_[i] < of_peer.steps.size() && !limit_reached() &&
         ready(of_peer.steps[next_receive_[i]])) {
    const PieceHeader* const header = link.head();
    if (header == nullptr) break;
    const uint32_t index = of_peer.steps[next_receive_[i]];
    const Step& step = execution_.plan->program.steps[index];
    if (header->call != execution_.call || header->bytes != execution_.received_bytes(step) ||
        header->pieces != pieces_of(of_peer, step) ||
        (header->placed && !was_advertised(i, step))) {
      mismatch_ = {of_peer.peer, header->call};
      return;
    }
    WEFT_DCHECK(ready(index) && is_receive(step.kind));
    placed_ += header->placed;
    if (!header->placed) receive_piece(step, link.head_payload());
    execution_.log_piece(link, link.receives().consumed(), header->bytes, false);
    link.consume();
    ++next_receive_[i];
    finish(index);
  }
}

void Executor::receive_piece(const Step& step, const std::byte* payload) {
  std::byte* const target = execution_.at(step.target);
  if (step.kind == StepKind::receive_reduce)
    return execution_.arithmetic.reduce[step.wide][execution_.wide(step.source)](
        target, payload, execution_.at(step.source), step.target.count);
  if (step.wide == execution_.wide(step.target)) {
    std::memcpy(target, payload, execution_.bytes(step.target));
  } else {
    execution_.arithmetic.widen(target, payload, step.target.count);
  }
}

void Executor::run_local() {
  while (!local_.empty() && !limit_reached()) {
    const uint32_t index = local_.back();
    local_.pop_back();
    WEFT_DCHECK(ready(index) && is_local(execution_.plan->program.steps[index].kind));
    run(execution_.plan->program.steps[index]);
    finish(index);
  }
}

void Executor::run(const Step& step) {
  const Arithmetic& arithmetic = execution_.arithmetic;
  std::byte *const target = execution_.at(step.target), *const source = execution_.at(step.source);
  switch (step.kind) {
    case StepKind::reduce:
      return arithmetic.reduce[execution_.wide(step.target)][execution_.wide(step.source)](
          target, target, source, step.target.count);
    case StepKind::finish: {
      const Shape& shape = execution_.plan->shape;
      return arithmetic.finish(target, source, step.target.count, shape.average ? shape.ranks : 1);
    }
    default:
      if (execution_.wide(step.target) && !execution_.wide(step.source))
        return arithmetic.widen(target, source, step.target.count);
      std::memmove(target, source, execution_.bytes(step.target));
  }
}

void Executor::put_all(size_t i) {
  const PeerSteps& of_peer = execution_.plan->puts[i];
  Link& link = *links_[of_peer.peer];
  // Of a less urgent lane: one put by reference at a time, since it stays ahead of everything that
  // more urgent lanes post later.
  while (next_put_[i] < of_peer.steps.size() && !limit_reached() &&
         !(bounded() && link.reads_caller_memory()) && ready(of_peer.steps[next_put_[i]]) &&
         link.can_send() && !link.disconnected) {
    const uint32_t index = of_peer.steps[next_put_[i]];
    const uint64_t piece = link.sends().posted();
    if (!put(link, i, index)) break;
    execution_.log_piece(link, piece,
                         execution_.bytes(execution_.plan->program.steps[index].source), true);
    ++next_put_[i];
    ++activity_;
  }
}

// False if it must wait for an advertisement, or the link is broken.
bool Executor::put(Link& link, size_t i, uint32_t index) {
  const Step& step = execution_.plan->program.steps[index];
  const Range& source = step.source;
  const std::span<const std::byte> payload(execution_.at(source), execution_.bytes(source));
  const uint32_t pieces = pieces_of(execution_.plan->puts[i], step);
  if (payload.size() <= link.copy_limit(execution_.oversubscribed)) {
    if (!link.send(execution_.call, pieces, payload, nullptr, index)) return false;
    finish(index);
    return true;
  }
  const MemoryRegion* const region = region_of(execution_.regions, payload);
  WEFT_CHECK(region != nullptr);  // arguments.cpp registers all memory that is sent by reference
  const LKey key = region->lkey();
  if (uses_rendezvous(link, payload.size()) && awaits_advertisements_) {
    const Advertisement* const to = link.find_advertisement(execution_.call.sequence, next_put_[i]);
    if (to == nullptr) return false;
    if (to->place != Advertisement::Place::slot && to->bytes == payload.size())
      return link.send_rendezvous(execution_.call, pieces, payload, key, index, *to);
  }
  return link.send(execution_.call, pieces, payload, &key, index);
}

void Executor::finish(uint32_t step) {
  if (!running()) return;  // a put of a plan that was stopped
  WEFT_DCHECK(step < execution_.plan->program.steps.size() && ready(step));
  const Plan& plan = *execution_.plan;
  for (uint32_t i = plan.first_follower[step]; i < plan.first_follower[step + 1]; ++i) {
    const uint32_t follower = plan.followers[i];
    WEFT_DCHECK(waits_[follower] > 0);
    if (--waits_[follower] > 0) continue;
    rescan_ = true;
    if (is_local(plan.program.steps[follower].kind)) local_.push_back(follower);
  }
  WEFT_DCHECK(steps_left_ > 0);
  --steps_left_;
  ++steps_done_;
  ++activity_;
}

std::vector<uint32_t> Executor::awaited_ranks() const {
  std::vector<uint32_t> ranks;
  if (!running()) return ranks;
  for (uint32_t rank = 0; rank < links_.size(); ++rank)
    if (depends_on(rank)) ranks.push_back(rank);
  return ranks;
}

bool Executor::has_receives_from(uint32_t rank) const {
  if (!running() || links_[rank] == nullptr) return false;
  const Plan& plan = *execution_.plan;
  for (size_t i = 0; i < plan.receives.size(); ++i)
    if (plan.receives[i].peer == rank &&
        plan.receives[i].steps.size() - next_receive_[i] > links_[rank]->receives().unconsumed())
      return true;
  return false;
}

bool Executor::depends_on(uint32_t rank) const {
  if (!running() || links_[rank] == nullptr) return false;
  return has_receives_from(rank) || has_sends_for(rank);
}

bool Executor::has_sends_for(uint32_t rank) const {
  if (!running()) return false;
  const Plan& plan = *execution_.plan;
  for (size_t i = 0; i < plan.puts.size(); ++i)
    if (plan.puts[i].peer == rank && next_put_[i] < plan.puts[i].steps.size()) return true;
  return false;
}

void Executor::check_invariants() const {
  WEFT_DCHECK(placed_ <= steps_done_ && steps_done_ <= activity_);
  if (!running()) return;
  const Plan& plan = *execution_.plan;
  // 0 while a lane yields: completions finished the last step, and advance() has not run since.
  WEFT_DCHECK(steps_left_ <= plan.program.steps.size());
  WEFT_DCHECK(activity_at_start_ <= activity_);
  WEFT_DCHECK(state_.size() == plan.initial.size() && waits_ == state_.data());
  for (size_t i = 0; i < plan.puts.size(); ++i)
    WEFT_DCHECK(next_put_[i] <= plan.puts[i].steps.size());
  for (size_t i = 0; i < plan.receives.size(); ++i) {
    WEFT_DCHECK(next_receive_[i] <= plan.receives[i].steps.size());
    // It may be beyond the last step: pieces of later calls are passed, too.
    WEFT_DCHECK(rendezvous_ || next_advertisement_[i] == 0);
  }
  for (const uint32_t step : local_) WEFT_DCHECK(ready(step));
}

}  // namespace weft::collective
