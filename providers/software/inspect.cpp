// SPDX-License-Identifier: BSD-3-Clause
// See inspect.hpp. Values that are undefined in a state (such as packets before RTS) are zero.
#include "providers/software/inspect.hpp"

#include <algorithm>
#include <span>

namespace weft::software {

namespace {

// Hash buckets, or peers, per acquisition of the lock: a few microseconds.
constexpr size_t kAtOnce = 64;

verbs::QpReport report_of(const roce::QueuePair& qp) {
  verbs::QpReport r;
  r.number = qp.number;
  r.type = qp.type;
  r.state = qp.state;
  r.mtu = qp.mtu();
  r.posted_sends = qp.sq.size();
  r.posted_recvs = qp.rq.size();
  if (qp.destination == nullptr) return r;
  r.peer = qp.peer;
  r.address = qp.path.destination;
  r.in_memory = qp.path.in_memory;
  const uint64_t first = (uint64_t{1} << 24) + qp.attributes.sq_psn.value_or(Psn{}).value;
  r.sent_packets = qp.req.sent_end - std::min(qp.req.sent_end, first);
  r.acked_packets = qp.req.una - std::min(qp.req.una, first);
  r.expected_psn = qp.res.expected.value;
  r.received = qp.res.msn;
  r.retries_left = qp.req.retries_left;
  r.waits_for_receive = !qp.req.rnr_until.is_never();
  r.flow.in_flight = qp.req.in_flight;
  r.flow.window = qp.destination->window.size;  // shared by all queue pairs to that address
  if (const roce::Pacer* const pacer = qp.req.pacer.get()) {
    r.flow.rate = pacer->rate();
    r.flow.window = std::min(r.flow.window, pacer->window());
    r.flow.rtt = pacer->rtt();
    r.flow.marks = pacer->marked();
  }
  if (const Rate limit = qp.limiter.rate(); limit != Rate{}) {
    const auto most = static_cast<double>(limit.bits_per_second);
    r.flow.rate = r.flow.rate == 0 ? most : std::min(r.flow.rate, most);
  }
  return r;
}

verbs::QpReport report_of(const srd::QueuePair& qp) {
  verbs::QpReport r;
  r.number = qp.number;
  r.type = QpType::srd;
  r.state = qp.state;
  r.posted_sends = qp.sends.used();
  r.posted_recvs = qp.receives.size();
  return r;
}

verbs::PeerReport report_of(const srd::Peer& peer) {
  verbs::PeerReport r;
  r.address = peer.address;
  r.endpoint = peer.endpoint();
  r.sent_packets = peer.tx.next;
  r.acked_packets = peer.tx.una;
  r.received_bytes = peer.rx.received_bytes;
  r.resting = peer.tx.rnr_waiting;
  r.awaiting = peer.tx.awaiting_response;
  r.duplicates = peer.tx.recovery.duplicates;
  r.timeouts = peer.tx.recovery.backoff;
  r.flow.rtt = peer.tx.rtt.smoothed;
  r.flow.marks = peer.tx.ecn_marks;
  r.in_memory = peer.in_memory;
  r.active = peer.tx.flight != nullptr;
  if (!r.active) return r;
  r.flow.rate = peer.tx.flight->flow.rate();
  r.flow.window = peer.tx.flight->flow.window();
  r.flow.in_flight = peer.tx.flight->flow.in_flight();
  return r;
}

// Copies reports to `all` in steps: step(from, some) copies some and returns the position to
// continue at, 0 at the end. Memory is allocated without the lock.
template <class Report, class Step>
void copy_in_steps(driver::Driver& driver, const std::atomic<bool>& closing,
                   std::vector<Report>& all, Step step) {
  std::vector<Report> some;
  some.reserve(4 * kAtOnce);
  size_t next = 0;
  do {
    some.clear();
    const size_t from = next;
    if (closing.load() || !driver.run_exclusive([&] { next = step(from, some); }, closing)) return;
    all.insert(all.end(), some.begin(), some.end());
  } while (next != 0);
}

template <class Machine>
void inspect_queue_pairs(driver::Driver& driver, const Machine& machine, verbs::Inspection& found,
                         const std::atomic<bool>& closing) {
  copy_in_steps(driver, closing, found.queue_pairs, [&](size_t from, auto& some) {
    return machine.visit_qps(from, kAtOnce, [&](const auto& qp) { some.push_back(report_of(qp)); });
  });
}

}  // namespace

void inspect_machine(driver::Driver& driver, roce::Engine& machine, verbs::Inspection& found,
                     const std::atomic<bool>& closing) {
  inspect_queue_pairs(driver, machine, found, closing);
}

void inspect_machine(driver::Driver& driver, srd::Engine& machine, verbs::Inspection& found,
                     const std::atomic<bool>& closing) {
  inspect_queue_pairs(driver, machine, found, closing);
  const size_t first = found.peers.size();
  copy_in_steps(driver, closing, found.peers, [&](size_t from, auto& some) -> size_t {
    const size_t end = std::min(machine.peer_count(), from + kAtOnce);
    for (size_t i = from; i < end; ++i)
      if (const srd::Peer* const peer = machine.peer(static_cast<uint32_t>(i)))
        some.push_back(report_of(*peer));
    return end < machine.peer_count() ? end : 0;
  });
  for (verbs::PeerReport& peer : std::span(found.peers).subspan(first)) {
    if (!peer.active || closing.load()) continue;
    (void)driver.run_exclusive(
        [&] { peer.paths = machine.path_reports(peer.address, peer.endpoint); }, closing);
  }
}

}  // namespace weft::software
