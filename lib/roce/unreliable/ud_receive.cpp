// SPDX-License-Identifier: BSD-3-Clause
// Datagrams that arrive. One that cannot be delivered is dropped, with a counter: its sender never
// hears of it. PSNs are not looked at (//= roce:C-PSN-21).
#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/message/payload.hpp"
#include "lib/roce/message/receive.hpp"
#include "lib/roce/unreliable/requester.hpp"
#include "lib/roce/unreliable/ud.hpp"
#include "lib/wire/encapsulation.hpp"

namespace weft::roce::ud {

namespace {

// The network header that the datagram came with, as far as its port has seen it.
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

// Header and payload into the oldest receive. //= roce:C-OPS-84
Placed place(Engine& engine, QueuePair& qp, const wire::Packet& packet,
             const Frame& frame) noexcept {
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

void on_datagram(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                 const Frame& frame) noexcept {
  // The address and the number of a group go together. //= roce:C-HDR-10
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
