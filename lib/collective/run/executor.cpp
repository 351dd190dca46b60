// SPDX-License-Identifier: BSD-3-Clause
// The executor: receives as data arrive, local steps as they become ready, puts as slots are free.
#include "lib/collective/run/executor.hpp"

#include <cstring>

#include "lib/base/check.hpp"

namespace weft::collective {

// One that covers the memory.
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
  execution_.regions.clear();
  execution_.open.clear();
  return execution_;
}

void Executor::start() {
  const Plan& plan = *execution_.plan;
  state_ = plan.initial;
  local_ = plan.local;
  waits_ = state_.data();
  next_put_ = waits_ + plan.program.steps.size();
  next_receive_ = next_put_ + plan.puts.size();
  next_invite_ = next_receive_ + plan.receives.size();
  invites_ = !plan.receives.empty() && links_[plan.receives.front().peer]->invites();
  awaits_invitations_ = true;
  left_ = plan.program.steps.size();
  began_ = worked_;
}

// Looks again if what was done made a step ready that was passed by.
bool Executor::advance(uint64_t most) {
  if (!running()) return false;
  const Plan& plan = *execution_.plan;
  until_ = most > UINT64_MAX - worked_ ? UINT64_MAX : worked_ + most;
  const size_t puts = plan.puts.size(), receives = plan.receives.size();
  do {
    again_ = false;
    // What the peers wait for goes before what waits here.
    for (size_t i = 0; i < puts; ++i) put_all(i);
    for (size_t i = 0; i < receives; ++i) receive_all(i);
    if (!local_.empty()) run_local();
    for (size_t i = 0; i < receives && invites_; ++i) invite_all(i);
  } while (again_ && left_ > 0 && !mismatch_ && !enough());
  if (left_ > 0 || mismatch_) return false;
  stop();
  return true;
}

// Of a call as a whole; sends and receives of exchanges may be spread over other calls here than
// there, so each is compared alone.
uint32_t Executor::pieces_of(const PeerSteps& of_peer, const Step& step) const {
  const bool alone = execution_.call.sequence == 0;
  return alone ? step.remaining_pieces : static_cast<uint32_t>(of_peer.steps.size());
}

uint64_t Executor::expected_bytes(const Step& step) const {
  const Arithmetic& arithmetic = execution_.arithmetic;
  return step.target.count * (step.wide ? arithmetic.accumulator : arithmetic.element);
}

// Takes the pieces that have arrived from one peer, as far as their steps are ready.
void Executor::receive_all(size_t i) {
  const PeerSteps& of_peer = execution_.plan->receives[i];
  Link& link = *links_[of_peer.peer];
  while (next_receive_[i] < of_peer.steps.size() && !enough() &&
         ready(of_peer.steps[next_receive_[i]])) {
    const PieceHeader* const header = link.head();
    if (header == nullptr) break;
    const uint32_t index = of_peer.steps[next_receive_[i]];
    const Step& step = execution_.plan->program.steps[index];
    if (header->call != execution_.call || header->bytes != expected_bytes(step) ||
        header->pieces != pieces_of(of_peer, step) || (header->placed && !may_be_placed(i, step))) {
      mismatch_ = {of_peer.peer, header->call};
      return;
    }
    placed_ += header->placed;
    if (!header->placed) receive_piece(step, link.head_payload());
    note(link, link.consumed(), header->bytes, false);
    link.consume();
    ++next_receive_[i];
    finish(index);
  }
}

void Executor::receive_piece(const Step& step, const std::byte* payload) {
  std::byte* const target = at(step.target);
  if (step.kind == StepKind::receive_reduce)
    return execution_.arithmetic.reduce[step.wide][wide(step.source)](
        target, payload, at(step.source), step.target.count);
  if (step.wide == wide(step.target)) {
    std::memcpy(target, payload, bytes(step.target));
  } else {
    execution_.arithmetic.widen(target, payload, step.target.count);
  }
}

void Executor::run_local() {
  while (!local_.empty() && !enough()) {
    const uint32_t index = local_.back();
    local_.pop_back();
    run(execution_.plan->program.steps[index]);
    finish(index);
  }
}

void Executor::run(const Step& step) {
  const Arithmetic& arithmetic = execution_.arithmetic;
  std::byte *const target = at(step.target), *const source = at(step.source);
  switch (step.kind) {
    case StepKind::reduce:
      return arithmetic.reduce[wide(step.target)][wide(step.source)](target, target, source,
                                                                     step.target.count);
    case StepKind::finish: {
      const Shape& shape = execution_.plan->shape;
      return arithmetic.finish(target, source, step.target.count, shape.average ? shape.ranks : 1);
    }
    default:
      if (wide(step.target) && !wide(step.source))
        return arithmetic.widen(target, source, step.target.count);
      std::memmove(target, source, bytes(step.target));
  }
}

void Executor::put_all(size_t i) {
  const PeerSteps& of_peer = execution_.plan->puts[i];
  Link& link = *links_[of_peer.peer];
  // Behind a more urgent lane: what is posted is ahead of all that others post later.
  while (next_put_[i] < of_peer.steps.size() && !enough() && !(bounded() && link.lends()) &&
         ready(of_peer.steps[next_put_[i]]) && link.can_send() && !link.gone) {
    const uint32_t index = of_peer.steps[next_put_[i]];
    const uint64_t piece = link.posted();
    if (!put(link, i, index)) break;
    note(link, piece, bytes(execution_.plan->program.steps[index].source), true);
    ++next_put_[i];
    ++worked_;
  }
}

// False if it has to wait, or the link is broken.
bool Executor::put(Link& link, size_t i, uint32_t index) {
  const Step& step = execution_.plan->program.steps[index];
  const Range& source = step.source;
  const std::span<const std::byte> payload(at(source), bytes(source));
  const uint32_t pieces = pieces_of(execution_.plan->puts[i], step);
  if (payload.size() <= link.copied(execution_.crowded)) {
    if (!link.send(execution_.call, pieces, payload, nullptr, index)) return false;
    finish(index);
    return true;
  }
  const MemoryRegion* const region = region_of(execution_.regions, payload);
  WEFT_CHECK(region != nullptr);
  const LKey key = region->lkey();
  if (by_invitation(link, payload.size()) && awaits_invitations_) {
    const Invitation* const to = link.invitation(execution_.call.sequence, next_put_[i]);
    if (to == nullptr) return false;
    if (to->place != Invitation::Place::slot && to->bytes == payload.size())
      return link.send_invited(execution_.call, pieces, payload, key, index, *to);
  }
  return link.send(execution_.call, pieces, payload, &key, index);
}

void Executor::finish(uint32_t step) {
  if (!running()) return;
  const Plan& plan = *execution_.plan;
  for (uint32_t i = plan.first_follower[step]; i < plan.first_follower[step + 1]; ++i) {
    const uint32_t follower = plan.followers[i];
    if (--waits_[follower] > 0) continue;
    again_ = true;
    if (is_local(plan.program.steps[follower].kind)) local_.push_back(follower);
  }
  --left_;
  ++moved_;
  ++worked_;
}

size_t Executor::width(const Range& range) const {
  return range.space == Space::work ? execution_.arithmetic.accumulator
                                    : execution_.arithmetic.element;
}

void Executor::note(const Link& link, uint64_t piece, uint64_t bytes, bool sent) const {
  if (execution_.log != nullptr)
    execution_.log->add(execution_.call, piece, link.peer(), bytes, sent);
}

uint64_t Executor::bytes(const Range& range) const { return range.count * width(range); }

// By number, not by pointer: the spaces of an exchange begin at address 0.
std::byte* Executor::at(const Range& range) const {
  const uintptr_t base =
      reinterpret_cast<uintptr_t>(execution_.spaces[static_cast<size_t>(range.space)]);
  return reinterpret_cast<std::byte*>(base + range.offset * width(range));
}

std::vector<uint32_t> Executor::awaited() const {
  std::vector<uint32_t> ranks;
  if (!running()) return ranks;
  for (uint32_t rank = 0; rank < links_.size(); ++rank)
    if (needs(rank)) ranks.push_back(rank);
  return ranks;
}

bool Executor::expects(uint32_t rank) const {
  if (!running() || links_[rank] == nullptr) return false;
  const Plan& plan = *execution_.plan;
  for (size_t i = 0; i < plan.receives.size(); ++i)
    if (plan.receives[i].peer == rank &&
        plan.receives[i].steps.size() - next_receive_[i] > links_[rank]->waiting())
      return true;
  return false;
}

bool Executor::needs(uint32_t rank) const {
  if (!running() || links_[rank] == nullptr) return false;
  return expects(rank) || gives(rank);
}

bool Executor::gives(uint32_t rank) const {
  if (!running()) return false;
  const Plan& plan = *execution_.plan;
  for (size_t i = 0; i < plan.puts.size(); ++i)
    if (plan.puts[i].peer == rank && next_put_[i] < plan.puts[i].steps.size()) return true;
  return false;
}

}  // namespace weft::collective
