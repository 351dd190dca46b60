// SPDX-License-Identifier: BSD-3-Clause
// What a queue pair has of the path to its peer: the headers of its packets, from the address
// vector and the habits of the device, and its rate.
#include "lib/roce/engine.hpp"
#include "lib/roce/message/pacing.hpp"
#include "lib/roce/rc/rc.hpp"
#include "lib/wire/source_port.hpp"

namespace weft::roce {

namespace {

constexpr uint32_t kLongestHeaders = 48;  // of a packet with payload: BTH to ICRC, pad

// Where the address vector names neither a port nor a flow label. //= roce:C-AV-96
uint16_t own_source_port(const QueuePair& qp, SourcePortRule rule) noexcept {
  if (rule == SourcePortRule::both_numbers && qp.type != QpType::ud)
    return wire::source_port_of_numbers(qp.number.value, qp.peer.value);
  return wire::source_port_of(qp.number.value * 2654435761u >> 8);
}

// Where the address vector sets no ECN bits.
uint8_t ecn_of(const QueuePair& qp, EcnRule rule) noexcept {
  constexpr uint8_t kEct0 = 2, kEct1 = 1;
  if (rule == EcnRule::always_ect1) return kEct1;
  return rule == EcnRule::controlled && qp.req.pacer != nullptr ? kEct0 : 0;
}

}  // namespace

// The headers of packets to the peer, from the address vector. //= roce:C-AV-95
void Engine::set_path(QueuePair& qp) {
  const QueuePairAttributes& a = qp.attributes;
  const AddressVector to = a.path.value_or(AddressVector{});  // none: UD
  qp.path = Path{};
  qp.path.source = port_.address();
  qp.path.destination = to.destination;
  qp.path.traffic_class = to.traffic_class;
  qp.path.hop_limit = to.hop_limit;
  //= roce:C-AV-96 stable per queue pair, spread over the ports
  const uint16_t source_port = to.source_port != 0 ? to.source_port
                               : to.flow_label != 0
                                   ? wire::source_port_of_label(to.flow_label)
                                   : own_source_port(qp, config_.habits.source_port);
  qp.path.source_port = port_.source_port(source_port, 0);
  qp.path.in_memory = !a.telemetry.value_or(false) && qp.type != QpType::ud &&
                      port_.reaches_in_memory(to.destination, qp.peer);
  qp.probes = config_.habits.probes && !capabilities_.lossless && !qp.path.in_memory;
  if (qp.telemetry) qp.path.destination_port = wire::kIntUdpPort;
  if ((qp.path.traffic_class & 3) == 0)
    qp.path.traffic_class |= ecn_of(qp, config_.habits.ecn);  //= roce:C-CC-101
}

// SQD: another address vector.
Result<void> Engine::change_path(QueuePair& qp) {
  const Gid& to = qp.attributes.path->destination;
  if (qp.reliable() && to != qp.path.destination) {
    if (!qp.drained() || rc::has_replies(qp))
      return Error{Code::busy,
                   "the queue pair is not drained: another destination can be set when "
                   "nothing is outstanding (sq_drained)"};
    Destination* const next = destinations_.acquire(to, capabilities_);
    qp.destination->waiting.remove(qp);
    destinations_.release(qp);
    qp.destination = next;
  }
  set_path(qp);
  return {};
}

// The lower one of the rate limit and the static rate of the path holds.
void Engine::set_limit(QueuePair& qp) noexcept {
  const QueuePairAttributes& a = qp.attributes;
  const RateLimit limit = a.rate_limit.value_or(RateLimit{});
  const Rate path = a.path ? a.path->static_rate : Rate{};
  const uint32_t longest = qp.mtu() + link_overhead(qp.path) + kLongestHeaders +
                           (qp.telemetry ? uint32_t{sizeof(wire::IntBlock)} : 0);
  qp.limiter.set(lower(limit.rate, path), limit.max_burst, longest, config_.pacing_quantum, time());
  qp.req.paced = qp.req.pacer != nullptr || qp.limiter.limits();
  if (qp.state == QpState::rts || qp.state == QpState::sqd) activate(qp);  // it may wait for less
}

}  // namespace weft::roce
