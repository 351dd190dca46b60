// SPDX-License-Identifier: BSD-3-Clause
// The executor's side of rendezvous: in reductions the receiver of a long piece advertises its
// final place as soon as that memory is free; the transport adds the piece there, and nothing is
// copied. Pieces that cannot be placed are advertised as "slot"; so are those added to the same
// memory as others in any order, since two transports would add concurrently. The sender waits for
// the advertisement for a limited time: a receiver in another call sends none, and the piece that
// then arrives in a slot reveals the mismatch.
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/collective/run/executor.hpp"

namespace weft::collective {
namespace {

// The element type for which WRITE_ADD equals the reduction of accumulators, if there is one.
std::optional<Element> element_added(const Call& call, bool exact) {
  if (call.op != ReduceOp::sum && call.op != ReduceOp::avg) return std::nullopt;
  if (!exact || call.type == DataType::fp32) return Element::fp32;
  if (call.type == DataType::int32) return Element::int32;
  if (call.type == DataType::int64) return Element::int64;
  return std::nullopt;
}

}  // namespace

// Computed alike by sender and receiver.
bool Executor::uses_rendezvous(const Link& link, uint64_t bytes) const {
  return link.supports_rendezvous() && bytes > link.copy_limit() &&
         reduces(execution_.plan->shape.collective);
}

// The target of a step that is ready is free, and no other step touches it until the piece arrives.
void Executor::advertise_all(size_t i) {
  WEFT_DCHECK(rendezvous_ && i < execution_.plan->receives.size());
  const PeerSteps& of_peer = execution_.plan->receives[i];
  Link& link = *links_[of_peer.peer];
  Advertisement advertisements[kAdvertisements];
  size_t count = 0, next = std::max<size_t>(next_advertisement_[i],
                                            next_receive_[i] + link.receives().unconsumed());
  for (; next < of_peer.steps.size() && next - next_receive_[i] < link.receives().slots() &&
         count < kAdvertisements && ready(of_peer.steps[next]);
       ++next) {
    const Step& step = execution_.plan->program.steps[of_peer.steps[next]];
    WEFT_DCHECK(is_receive(step.kind));
    if (!uses_rendezvous(link, execution_.received_bytes(step))) continue;
    advertisements[count] = advertisement_for(step);
    if (advertisements[count].place == Advertisement::Place::add) prepare_target(step);
    advertisements[count].sequence = execution_.call.sequence;
    advertisements[count++].index = static_cast<uint32_t>(next);
  }
  if (count > 0 && !link.send_advertisements({advertisements, count})) return;
  next_advertisement_[i] = static_cast<uint32_t>(next);
  rescan_ |= count > 0;
}

Advertisement Executor::advertisement_for(const Step& step) const {
  using Place = Advertisement::Place;
  const uint64_t length = execution_.received_bytes(step);
  const bool same_width = step.wide == execution_.wide(step.target);
  const std::optional<Element> added = element_added(execution_.call, execution_.plan->shape.exact);
  Advertisement advertisement{.bytes = static_cast<uint32_t>(length)};
  const std::byte* const target = execution_.at(step.target);
  const MemoryRegion* const region = region_of(execution_.remote_writable, {target, length});
  if (region == nullptr || !same_width || step.unordered) return advertisement;
  if (step.kind == StepKind::receive_reduce && !added) return advertisement;
  advertisement.place = step.kind == StepKind::receive_reduce ? Place::add : Place::write;
  advertisement.element = added.value_or(Element::fp32);
  advertisement.address = reinterpret_cast<uintptr_t>(target);
  advertisement.rkey = region->rkey().value;
  return advertisement;
}

std::vector<uint32_t> Executor::advertised_ranks() const {
  std::vector<uint32_t> ranks;
  if (!running()) return ranks;
  for (size_t i = 0; i < execution_.plan->receives.size(); ++i)
    if (next_advertisement_[i] > next_receive_[i])
      ranks.push_back(execution_.plan->receives[i].peer);
  return ranks;
}

// A header that says "placed" is accepted only for a piece that was advertised.
bool Executor::was_advertised(size_t i, const Step& step) const {
  return next_receive_[i] < next_advertisement_[i] &&
         uses_rendezvous(*links_[execution_.plan->receives[i].peer],
                         execution_.received_bytes(step)) &&
         advertisement_for(step).place != Advertisement::Place::slot;
}

// Moves the other operand into the target before the piece is added to it.
void Executor::prepare_target(const Step& step) {
  std::byte *const target = execution_.at(step.target), *const source = execution_.at(step.source);
  if (execution_.wide(step.target) && !execution_.wide(step.source))
    execution_.arithmetic.widen(target, source, step.target.count);
  else if (target != source)
    std::memmove(target, source, execution_.bytes(step.target));
}

}  // namespace weft::collective
