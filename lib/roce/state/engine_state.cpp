// SPDX-License-Identifier: BSD-3-Clause
// See engine_state.hpp.
#include "lib/roce/state/engine_state.hpp"

#include <algorithm>

#include "lib/wire/liveness_request.hpp"

namespace weft::roce {

EngineState::EngineState(Port& port, const EngineConfig& config, base::SecureRandom& random)
    : Machine(port, random),
      config_(config),
      wheel_(config.start),
      early_packets_(config.early_packets) {
  if (!config.icrc) disable_icrc();
}

void EngineState::arm_timer(QueuePair& qp, Instant deadline) noexcept {
  WEFT_DCHECK(!deadline.is_never());
  if (qp.timer.armed()) {
    if (qp.timer.deadline <= deadline) return;  // it fires earlier and is armed again then
    wheel_.remove(qp.timer);
  }
  wheel_.insert(qp.timer, deadline);
  next_deadline_ = std::min(next_deadline_, deadline);
}

void EngineState::ask_for_peer(const QueuePair& qp) noexcept {
  if (!capabilities_.asks || qp.path.in_memory || qp.selective == nullptr) return;
  const uint64_t nonce = uint64_t{random_.next32()} << 32 | random_.next32();
  port_.ask(qp.path, wire::LivenessRequest::of_rc(qp.peer, nonce).bytes());
}

void EngineState::note_violation(const QueuePair& qp) noexcept {
  count(Count::access_errors);
  violations_.note(qp.path.destination, time());
}

void EngineState::count_paced_departure(uint64_t late_ns) noexcept {
  counters_.add(Count::paced_waits);
  counters_.add(Count::paced_late_ns, late_ns);
  counters_.raise(Count::paced_late_most_ns, late_ns);
}

void EngineState::remove_from_lists(QueuePair& qp) noexcept {
  active_.remove(qp);
  acks_.remove(qp);
  notices_.remove(qp);
  transmitted_.remove(qp);
  if (qp.destination != nullptr) qp.destination->waiting.remove(qp);
  wheel_.remove(qp.timer);
  WEFT_DCHECK(!qp.active.listed && !qp.ack_link.listed && !qp.notices.listed);
  WEFT_DCHECK(!qp.transmitted.listed && !qp.window_wait.listed && !qp.timer.armed());
}

}  // namespace weft::roce
