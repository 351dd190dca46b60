// SPDX-License-Identifier: BSD-3-Clause
// What the agent says: each kind of datagram put together from a connection.
#include <algorithm>
#include <cstring>

#include "lib/base/memory_permitting.hpp"
#include "lib/roce/cm/agent.hpp"
#include "lib/roce/cm/ip_addressing.hpp"

namespace weft::cm {

namespace {

constexpr size_t kOutbox =
    256;  // a burst of answers; what is beyond it is finish_question for again
constexpr uint8_t kTenGigabits = 3;  // packet rate code; nobody paces by it

uint8_t top(uint8_t value, int bits) { return static_cast<uint8_t>(value << (8 - bits)); }

// The port has no name of its own: it has that of its address.
uint64_t guid_of(const Gid& address) {
  Be64 guid;
  std::memcpy(&guid, address.bytes.data() + 8, sizeof guid);
  return guid;
}

}  // namespace

Req Agent::request_of(const Connection& c, const Offer& offer) const {
  Req req{};
  req.local_id = c.id;
  req.service_id = c.service_id;
  req.local_guid = guid_of(config_.address);
  req.local_qpn = offer.qpn.value;
  req.responder_resources = offer.responder_resources;
  req.initiator_depth = offer.initiator_depth;
  const auto transport = static_cast<uint8_t>(offer.transport);
  req.response_transport =
      static_cast<uint8_t>(top(config_.response_timeout, 5) | transport << 1 | 1);
  req.starting_psn = offer.psn.value;
  req.response_retries =
      static_cast<uint8_t>(top(config_.response_timeout, 5) | (offer.retry_count & 7));
  req.pkey = uint16_t{0xFFFF};
  req.mtu_rnr = static_cast<uint8_t>(top(mtu_code(offer.path_mtu), 4) | (offer.rnr_retry & 7));
  req.retries_srq = static_cast<uint8_t>(top(config_.retries, 4) | (offer.shared_receives ? 8 : 0));
  req.primary.local_gid = config_.address;
  req.primary.remote_gid = c.peer;
  req.primary.flow_label_rate = uint32_t{kTenGigabits};
  req.primary.traffic_class = offer.traffic_class;
  req.primary.hop_limit = offer.hop_limit;
  req.primary.ack_timeout = top(offer.ack_timeout, 5);
  req.alternate.local_lid = uint16_t{0};
  req.alternate.remote_lid = uint16_t{0};
  put_ip_header(req, config_.address, offer.source_port, c.peer, offer.private_data);
  return req;
}

Rep Agent::reply_of(const Connection& c, const Offer& offer) const {
  Rep rep{};
  rep.local_id = c.id;
  rep.remote_id = c.peer_id;
  rep.local_qpn = offer.qpn.value;
  rep.starting_psn = offer.psn.value;
  rep.responder_resources = offer.responder_resources;
  rep.initiator_depth = offer.initiator_depth;
  rep.delay_flow = 1;
  rep.rnr_srq = static_cast<uint8_t>(top(offer.rnr_retry, 3) | (offer.shared_receives ? 16 : 0));
  rep.local_guid = guid_of(config_.address);
  std::copy(offer.private_data.begin(), offer.private_data.end(), rep.private_data.begin());
  return rep;
}

Mad Agent::rejection(const Connection& c, Answered what, Reason reason,
                     std::span<const std::byte> data) const {
  Rej rej{};
  rej.local_id = c.id;
  rej.remote_id = c.peer_id;
  rej.message = top(static_cast<uint8_t>(what), 2);
  rej.reason = static_cast<uint16_t>(reason);
  if (reason == Reason::timeout) {
    const Be64 guid = guid_of(config_.address);
    rej.info_length = top(sizeof guid, 7);
    std::memcpy(rej.info.data(), &guid, sizeof guid);
  }
  std::copy(data.begin(), data.end(), rej.private_data.begin());
  return make(rej, c.transaction);
}

// To one that is no connection of ours.
void Agent::refuse(const Gid& to, const Mad& mad, uint32_t peer_id, Answered what, Reason reason) {
  add(AgentCount::refused);
  Rej rej{};
  rej.remote_id = peer_id;
  rej.message = top(static_cast<uint8_t>(what), 2);
  rej.reason = static_cast<uint16_t>(reason);
  send_answer(to, make(rej, header_of(mad).transaction));
}

Mad Agent::patience(const Connection& c, Answered what) const {
  Mra mra{};
  mra.local_id = c.id;
  mra.remote_id = c.peer_id;
  mra.message = top(static_cast<uint8_t>(what), 2);
  mra.service_timeout = top(config_.patience, 5);
  return make(mra, c.transaction);
}

Mad Agent::readiness(const Connection& c) const {
  Rtu rtu{};
  rtu.local_id = c.id;
  rtu.remote_id = c.peer_id;
  return make(rtu, c.transaction);
}

Mad Agent::farewell(const Connection& c) const {
  Dreq dreq{};
  dreq.local_id = c.id;
  dreq.remote_id = c.peer_id;
  dreq.remote_qpn = c.peer_qpn.value;
  return make(dreq, c.transaction);
}

// Put together anew each time that it is repeated: an end needs no memory.
void Agent::send_dreq(Connection& c, Instant now) noexcept {
  c.state = State::dreq_sent;
  c.sent.reset();
  c.transaction = random_.next64();
  c.tries = config_.retries;
  c.wait = config_.response_timeout;
  send(c.peer, farewell(c));
  arm(c, now + time_of(c.wait));
}

// Its other side has started anew: it is told once more that this one is over, and that is that.
//= roce:C-CM-108
void Agent::abandon(Connection& c, Instant now) noexcept {
  c.transaction = random_.next64();
  send(c.peer, farewell(c));
  end(c, EventKind::disconnected, now);
}

void Agent::send_drep(const Gid& to, uint64_t transaction, uint32_t local_id, uint32_t remote_id) {
  Drep drep{};
  drep.local_id = local_id;
  drep.remote_id = remote_id;
  send_answer(to, make(drep, transaction));
}

// Of what the application and its connections have to say there is no more than there are of these.
void Agent::send(const Gid& to, const Mad& mad) noexcept {
  const bool kept = base::memory_permitting([&] { outbox_.push_back({to, mad}); });
  add(kept ? AgentCount::sent : AgentCount::answers_dropped);
}

// What anybody can ask for as often as he likes. //= threat:A17
void Agent::send_answer(const Gid& to, const Mad& mad) noexcept {
  if (outbox_.size() >= kOutbox) return add(AgentCount::answers_dropped);
  send(to, mad);
}

const roce::ManagementDatagram* Agent::next_datagram() noexcept {
  if (outbox_.empty()) return nullptr;
  leaving_ = outbox_.front();
  outbox_.pop_front();
  return &leaving_;
}

}  // namespace weft::cm
