// SPDX-License-Identifier: BSD-3-Clause
// See mad_builder.hpp.
#include "lib/roce/cm/mad_builder.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::cm {

namespace {

constexpr uint8_t kTenGigabits = 3;  // packet rate code; RoCE peers ignore it

// The low `bits` of `value` in the top bits of a byte.
uint8_t top(uint8_t value, int bits) { return static_cast<uint8_t>(value << (8 - bits)); }

uint64_t guid_of(const Gid& address) {
  Be64 guid;
  std::memcpy(&guid, address.bytes.data() + 8, sizeof guid);
  return guid;
}

template <class Body>
Mad with_ece(Body& body, const Connection& c, const Ece& ece) {
  put_vendor(body, ece);
  Mad mad = make(body, c.transaction);
  header_of(mad).modifier = ece.options;
  return mad;
}

Rej rejection(Answered what, Reason reason, uint32_t local_id, uint32_t remote_id) {
  Rej rej{};
  rej.local_id = local_id;
  rej.remote_id = remote_id;
  rej.message = top(static_cast<uint8_t>(what), 2);
  rej.reason = static_cast<uint16_t>(reason);
  return rej;
}

}  // namespace

Mad make_req(const Connection& c, const Offer& offer, const Gid& local, const MadTimeouts& times) {
  WEFT_DCHECK(c.active && offer.private_data.size() <= kRequestPrivateData);
  Req req{};
  req.local_id = c.id;
  req.service_id = c.service_id;
  req.local_guid = guid_of(local);
  req.local_qpn = offer.qpn.value;
  req.responder_resources = offer.responder_resources;
  req.initiator_depth = offer.initiator_depth;
  const auto transport = static_cast<uint8_t>(offer.transport);
  req.response_transport =
      static_cast<uint8_t>(top(times.response_timeout, 5) | transport << 1 | 1);
  req.starting_psn = offer.psn.value;
  req.response_retries =
      static_cast<uint8_t>(top(times.response_timeout, 5) | (offer.retry_count & 7));
  req.pkey = uint16_t{0xFFFF};
  req.mtu_rnr = static_cast<uint8_t>(top(mtu_code(offer.path_mtu), 4) | (offer.rnr_retry & 7));
  const bool xrc = offer.transport == Transport::extended;
  req.retries_srq = static_cast<uint8_t>(top(times.retries, 4) | (offer.shared_receives ? 8 : 0) |
                                         (xrc ? static_cast<int>(ExtendedTransport::xrc) : 0));
  req.primary.local_gid = local;
  req.primary.remote_gid = c.peer;
  req.primary.flow_label_rate = uint32_t{kTenGigabits};
  req.primary.traffic_class = offer.traffic_class;
  req.primary.hop_limit = offer.hop_limit;
  req.primary.ack_timeout = top(offer.ack_timeout, 5);
  req.alternate.local_lid = uint16_t{0};
  req.alternate.remote_lid = uint16_t{0};
  put_ip_header(req, local, offer.source_port, c.peer, offer.private_data);
  return with_ece(req, c, offer.ece);
}

Mad make_rep(const Connection& c, const Offer& offer, const Gid& local) {
  Rep rep{};
  WEFT_DCHECK(!c.active && offer.private_data.size() <= rep.private_data.size());
  rep.local_id = c.id;
  rep.remote_id = c.peer_id;
  const bool xrc = offer.transport == Transport::extended;
  (xrc ? rep.local_eecn : rep.local_qpn) = offer.qpn.value;
  rep.starting_psn = offer.psn.value;
  rep.responder_resources = offer.responder_resources;
  rep.initiator_depth = offer.initiator_depth;
  constexpr uint8_t kFailoverNotSupported = 1 << 1;
  rep.delay_flow = 1 | (c.wants_failover ? kFailoverNotSupported : 0);  //= roce:C-AV-132
  const bool shared = xrc || offer.shared_receives;
  rep.rnr_srq = static_cast<uint8_t>(top(offer.rnr_retry, 3) | (shared ? 16 : 0));
  rep.local_guid = guid_of(local);
  std::copy(offer.private_data.begin(), offer.private_data.end(), rep.private_data.begin());
  return with_ece(rep, c, offer.ece);
}

Mad make_rej(const Connection& c, Answered what, Reason reason, const Gid& local,
             std::span<const std::byte> data) {
  Rej rej = rejection(what, reason, c.id, c.peer_id);
  WEFT_DCHECK(data.size() <= rej.private_data.size());
  if (reason == Reason::timeout) {
    const Be64 guid = guid_of(local);
    rej.info_length = top(sizeof guid, 7);
    std::memcpy(rej.info.data(), &guid, sizeof guid);
  }
  std::copy(data.begin(), data.end(), rej.private_data.begin());
  return make(rej, c.transaction);
}

Mad make_rej(const Mad& mad, uint32_t peer_id, Answered what, Reason reason) {
  return make(rejection(what, reason, 0, peer_id), header_of(mad).transaction);
}

Mad make_mra(const Connection& c, Answered what, uint8_t service_timeout) {
  Mra mra{};
  mra.local_id = c.id;
  mra.remote_id = c.peer_id;
  mra.message = top(static_cast<uint8_t>(what), 2);
  mra.service_timeout = top(service_timeout, 5);
  return make(mra, c.transaction);
}

Mad make_rtu(const Connection& c) {
  WEFT_DCHECK(c.active);
  Rtu rtu{};
  rtu.local_id = c.id;
  rtu.remote_id = c.peer_id;
  return make(rtu, c.transaction);
}

Mad make_dreq(const Connection& c) {
  Dreq dreq{};
  dreq.local_id = c.id;
  dreq.remote_id = c.peer_id;
  dreq.remote_qpn = c.peer_qpn.value;
  return make(dreq, c.transaction);
}

Mad make_drep(uint64_t transaction, uint32_t local_id, uint32_t remote_id) {
  Drep drep{};
  drep.local_id = local_id;
  drep.remote_id = remote_id;
  return make(drep, transaction);
}

Mad make_apr(const Connection& c, uint64_t transaction) {
  Apr apr{};
  apr.local_id = c.id;
  apr.remote_id = c.peer_id;
  apr.status = Apr::kNotSupported;
  return make(apr, transaction);
}

Mad make_sidr_req(const Connection& c, const Gid& local, uint16_t source_port,
                  std::span<const std::byte> data) {
  WEFT_DCHECK(c.active && data.size() <= kSidrPrivateData);
  SidrReq req{};
  req.request_id = c.id;
  req.pkey = uint16_t{0xFFFF};
  req.service_id = c.service_id;
  put_ip_header(req, local, source_port, c.peer, data);
  return make(req, c.transaction);
}

}  // namespace weft::cm
