// SPDX-License-Identifier: BSD-3-Clause
// See context.hpp.
#include "lib/srd/state/context.hpp"

#include <algorithm>

namespace weft::srd {

namespace {
constexpr uint32_t kQpnPrefixShift = 16;
}  // namespace

Context::Context(Port& port, const Config& given, base::SecureRandom& random)
    : Machine(port, random),
      config(given),
      // All our QPNs have the same top 8 bits: with the address they identify this device.
      qpn_prefix((port.qpn_range().first + (1u << kQpnPrefixShift) - 1) >> kQpnPrefixShift),
      mtu(capabilities_.active_mtu),
      wheel(given.start),
      qp_numbers(0xFFFF, random) {}

void Context::arm(Peer& peer, Instant deadline) noexcept {
  WEFT_DCHECK(peer.timer.owner == &peer);
  if (deadline.is_never()) return;
  if (peer.timer.armed()) {
    if (peer.timer.deadline <= deadline) return;
    wheel.remove(peer.timer);
  }
  wheel.insert(peer.timer, deadline);
  schedule(deadline);
}

void Context::complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                       bool solicited) noexcept {
  WEFT_DCHECK(completion.qp == qp.number);
  WEFT_DCHECK(&cq == qp.send_cq || &cq == qp.recv_cq);
  if (deliver(qp.number, cq, completion, solicited) || qp.state == QpState::err) return;
  qp.state = QpState::err;
  raise(EventType::qp_fatal, qp.number);
}

void Context::complete_flushed(QueuePair& qp, CompletionQueue& cq, uint64_t id,
                               WorkType type) noexcept {
  complete(qp, cq, {.id = id, .qp = qp.number, .status = Status::flushed, .type = type}, false);
}

}  // namespace weft::srd
