// SPDX-License-Identifier: BSD-3-Clause
// Datagrams that leave.
#include "lib/roce/message/payload.hpp"
#include "lib/roce/unreliable/ud.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce::ud {

namespace {
constexpr uint32_t kOwnKey = 0x80000000;  // the request carries the Q_Key of its queue pair
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
  if (to.flow_label != 0)
    d.path.source_port =
        port.source_port(static_cast<uint16_t>(0xC000 | (to.flow_label & 0x3FFF)), 0);
  return d;
}

bool send_datagram(Engine& engine, QueuePair& qp, FrameBuilder& out) noexcept {
  Requester& req = qp.req;
  const SendEntry& entry = qp.sq[req.next_index];
  const Datagram& to = qp.datagrams[qp.sq.slot(req.next_index)];
  const bool imm = entry.opcode == Opcode::send_with_imm;
  const uint8_t opcode = imm ? wire::kUdSendOnlyImm : wire::kUdSendOnly;
  std::byte* at =
      out.start(out.keep(to.path), wire::opcode_info(opcode).header_length, entry.length);
  at = wire::emit_bth(at, {.opcode = opcode,
                           .solicited = entry.solicited,
                           .pad = out.pad_for(entry.length),
                           .dest = to.dest,
                           .psn = Psn{static_cast<uint32_t>(req.next) & Psn::kMask}});
  at = wire::emit_deth(at, to.qkey, qp.number);
  if (imm) wire::emit_imm(at, entry.imm_or_key);
  if (entry.length != 0 && !gather_payload(engine, qp, 0, entry.length, false, out)) {
    out.cancel();
    return false;
  }
  out.finish();
  req.next += 1;
  return true;
}

}  // namespace weft::roce::ud
