// SPDX-License-Identifier: BSD-3-Clause
// Datagrams: requests that are sent, and SENDs that arrive. A datagram that cannot be delivered is
// dropped with a counter; the sender is not informed. PSNs are not checked (//= roce:C-PSN-21).
#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/message/pacing.hpp"
#include "lib/roce/message/receive.hpp"
#include "lib/roce/message/send.hpp"
#include "lib/roce/message/shared_receives.hpp"
#include "lib/roce/unreliable/unreliable.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/source_port.hpp"

namespace weft::roce::ud {

namespace {

constexpr uint32_t kOwnKey = 0x80000000;  // the request carries the Q_Key of its queue pair

// Writes the network header of the datagram, as far as its port saw it (verbs: the GRH).
void emit_network_header(std::byte* at, const Frame& frame) noexcept {
  const Path& path = *frame.path;
  wire::Outer outer;
  outer.traffic_class = static_cast<uint8_t>((path.traffic_class & ~3u) | (frame.ecn & 3u));
  outer.hop_limit = path.hop_limit;
  outer.ip_id = frame.ip_id;
  outer.source = path.source;
  outer.destination = path.destination;
  wire::emit_network_header(at, outer, frame.length + frame.more_length + frame.remote_length);
}

// Copies header and payload into the oldest receive. //= roce:C-OPS-84
Placed place(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
             const Frame& frame) noexcept {
  WEFT_DCHECK(!qp.rq.empty());
  std::byte header[kNetworkHeaderLength];
  emit_network_header(header, frame);
  const Sge* const sges = qp.rq.sges(qp.rq.head());
  const auto copy = [&header](std::byte* where, uint32_t done, uint32_t piece) {
    return memory::copy_in(where, header + done, piece) ? Placed::ok : Placed::access_error;
  };
  const Placed placed = scatter(engine, qp.domain, sges, 0, kNetworkHeaderLength, copy);
  if (placed != Placed::ok) return placed;
  return scatter_payload(engine, qp.domain, sges, kNetworkHeaderLength, packet, frame);
}

}  // namespace

const char* invalid_reason(const QueuePair& qp, const SendRequest& r, uint32_t length) noexcept {
  if (r.opcode != Opcode::send && r.opcode != Opcode::send_with_imm)
    return "UD queue pairs only SEND, with or without immediate data";
  if (r.to == nullptr || r.remote_qpn.value == 0 || r.remote_qpn.value > Psn::kMask)
    return "a datagram needs SendRequest::to, remote_qpn and remote_qkey";
  if (r.to->path().destination.is_ipv4() != qp.path.source.is_ipv4())
    return "the address handle is of another address family than the device";
  if (r.to->path().destination.is_multicast() != (r.remote_qpn == kMulticastQpn))
    return "a datagram to a multicast group goes to kMulticastQpn, and no other does";
  if (r.to->path().static_rate < Rate{}) return "AddressVector::static_rate is below 0";
  //= roce:C-OPS-83 refused at post
  if (length > qp.mtu()) return "a datagram has at most DeviceAttributes::active_mtu bytes";
  return nullptr;
}

//= roce:C-AV-95 roce:C-OPS-85
Datagram datagram(const QueuePair& qp, const SendRequest& r, Port& port) noexcept {
  const AddressVector& to = r.to->path();
  Datagram d{qp.path, r.remote_qpn, r.remote_qkey & kOwnKey ? qp.qkey : r.remote_qkey};
  d.path.destination = to.destination;
  d.path.traffic_class = to.traffic_class;
  d.path.hop_limit = to.hop_limit;
  d.rate = to.static_rate;
  if (to.source_port != 0)
    d.path.source_port = port.source_port(to.source_port, 0);
  else if (to.flow_label != 0)
    d.path.source_port = port.source_port(wire::source_port_of_label(to.flow_label), 0);
  return d;
}

bool send_datagram(EngineState& engine, QueuePair& qp, FrameBuilder& out, Instant now) noexcept {
  Requester& req = qp.req;
  const SendEntry& entry = qp.sq[req.next_index];
  WEFT_DCHECK(entry.first_psn == req.next && entry.length <= qp.mtu());
  const Datagram& to = qp.datagrams[qp.sq.slot(req.next_index)];
  const bool imm = entry.opcode == Opcode::send_with_imm;
  const uint8_t opcode = imm ? wire::kUdSendOnlyImm : wire::kUdSendOnly;
  std::byte* at =
      out.start(out.keep(to.path), wire::opcode_info(opcode).header_length, entry.length);
  at = wire::emit_bth(at,
                      {.opcode = opcode,
                       .solicited = entry.solicited,
                       .pad = out.pad_for(entry.length),
                       .dest = to.dest,
                       .psn = Psn{static_cast<uint32_t>(req.next) & Psn::kMask}},
                      qp.bth_constants);
  at = wire::emit_deth(at, to.qkey, qp.number);
  if (imm) wire::emit_imm(at, entry.imm_or_key);
  if (entry.length != 0 && !gather_payload(engine, qp, 0, entry.length, false, out)) {
    out.cancel();
    return false;
  }
  out.finish();
  charge_limit(engine, qp, out, to.path, to.rate, now);
  req.next += 1;
  return true;
}

void on_datagram(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                 const Frame& frame) noexcept {
  // A group address and kMulticastQpn occur only together. //= roce:C-HDR-10
  if (frame.path->destination.is_multicast() && packet.dest_qpn != kMulticastQpn)
    return engine.count(Count::rx_bad_dest_qpn);
  //= roce:C-OPS-85
  if (packet.deth().qkey != qp.qkey) return engine.count(Count::rx_bad_qkey);
  if (!length_fits(engine, qp, packet)) return engine.count(Count::rx_bad_payload);
  if (!find_receive(engine, qp)) return engine.count(Count::rx_no_receive);
  const uint32_t bytes = kNetworkHeaderLength + packet.payload_length;
  if (bytes > qp.rq[qp.rq.head()].length) return engine.count(Count::rx_too_long);
  switch (place(engine, qp, packet, frame)) {
    case Placed::ok:
      return complete_receive(engine, qp, Status::success, bytes, &packet);
    case Placed::not_pulled:
      return engine.count(Count::rx_pull_failed);
    default:
      return fail_receive(engine, qp);
  }
}

}  // namespace weft::roce::ud
