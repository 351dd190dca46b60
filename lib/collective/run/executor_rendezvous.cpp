// SPDX-License-Identifier: BSD-3-Clause
// The executor's invitations: in reductions, the receiver of a long piece says where it is to be
// put as soon as that memory is free, so that it is added there by the transport and copied
// nowhere. Pieces that cannot be placed are invited into their slot, and those that are added to
// the same memory as others in any order: two transports would add at once. The sender waits for
// that, but not for ever: a receiver in another call invites nobody, and what then comes through a
// slot tells it of the mismatch.
#include <cstring>

#include "lib/collective/run/executor.hpp"

namespace weft::collective {
namespace {

// What WRITE_ADD adds to be the reduction of accumulators, if it can.
std::optional<Element> element_added(const Call& call, bool exact) {
  if (call.op != ReduceOp::sum && call.op != ReduceOp::avg) return std::nullopt;
  if (!exact || call.type == DataType::fp32) return Element::fp32;
  if (call.type == DataType::int32) return Element::int32;
  if (call.type == DataType::int64) return Element::int64;
  return std::nullopt;
}

}  // namespace

// Both sides say the same.
bool Executor::by_invitation(const Link& link, uint64_t bytes) const {
  return link.invites() && bytes > link.copied() && reduces(execution_.plan->shape.collective);
}

// A piece whose step is ready has free memory to go to, and stays the only one to touch it.
void Executor::invite_all(size_t i) {
  const PeerSteps& of_peer = execution_.plan->receives[i];
  Link& link = *links_[of_peer.peer];
  Invitation invitations[kInvitations];
  size_t count = 0, next = std::max<size_t>(next_invite_[i], next_receive_[i] + link.waiting());
  for (; next < of_peer.steps.size() && next - next_receive_[i] < link.slots() &&
         count < kInvitations && ready(of_peer.steps[next]);
       ++next) {
    const Step& step = execution_.plan->program.steps[of_peer.steps[next]];
    if (!by_invitation(link, expected_bytes(step))) continue;
    invitations[count] = invitation_for(step);
    if (invitations[count].place == Invitation::Place::add) prepare_place(step);
    invitations[count].sequence = execution_.call.sequence;
    invitations[count++].index = static_cast<uint32_t>(next);
  }
  if (count > 0 && !link.send_invitations({invitations, count})) return;
  next_invite_[i] = static_cast<uint32_t>(next);
  again_ |= count > 0;
}

Invitation Executor::invitation_for(const Step& step) const {
  using Place = Invitation::Place;
  const uint64_t length = expected_bytes(step);
  const bool same_width = step.wide == wide(step.target);
  const std::optional<Element> added = element_added(execution_.call, execution_.plan->shape.exact);
  Invitation invitation{.bytes = static_cast<uint32_t>(length)};
  const std::byte* const target = at(step.target);
  const MemoryRegion* const region = region_of(execution_.open, {target, length});
  if (region == nullptr || !same_width || step.unordered) return invitation;
  if (step.kind == StepKind::receive_reduce && !added) return invitation;
  invitation.place = step.kind == StepKind::receive_reduce ? Place::add : Place::write;
  invitation.element = added.value_or(Element::fp32);
  invitation.address = reinterpret_cast<uintptr_t>(target);
  invitation.rkey = region->rkey().value;
  return invitation;
}

std::vector<uint32_t> Executor::invited() const {
  std::vector<uint32_t> ranks;
  if (!running()) return ranks;
  for (size_t i = 0; i < execution_.plan->receives.size(); ++i)
    if (next_invite_[i] > next_receive_[i]) ranks.push_back(execution_.plan->receives[i].peer);
  return ranks;
}

// That a piece is in place is believed if it was invited there.
bool Executor::may_be_placed(size_t i, const Step& step) const {
  return next_receive_[i] < next_invite_[i] &&
         by_invitation(*links_[execution_.plan->receives[i].peer], expected_bytes(step)) &&
         invitation_for(step).place != Invitation::Place::slot;
}

// What the piece is added to lies in the target.
void Executor::prepare_place(const Step& step) {
  std::byte *const target = at(step.target), *const source = at(step.source);
  if (wide(step.target) && !wide(step.source))
    execution_.arithmetic.widen(target, source, step.target.count);
  else if (target != source)
    std::memmove(target, source, bytes(step.target));
}

}  // namespace weft::collective
