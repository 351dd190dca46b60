// SPDX-License-Identifier: BSD-3-Clause
// Received packets: parse -> ICRC -> queue pair -> service, state, source, P_Key -> rc/ or
// unreliable/. A packet that fails a check increments one counter and changes no state.
#include <algorithm>

#include "lib/roce/engine.hpp"
#include "lib/roce/rc/rc.hpp"
#include "lib/roce/unreliable/unreliable.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/liveness_request.hpp"

namespace weft::roce {

namespace {
constexpr uint16_t kRocePort = 4791;  //= roce:C-HDR-7

Count parse_count(wire::ParseError error) noexcept {
  switch (error) {
    case wire::ParseError::too_short:
      return Count::rx_too_short;
    case wire::ParseError::bad_version:
      return Count::rx_bad_version;
    case wire::ParseError::bad_opcode:
      return Count::rx_bad_opcode;
    case wire::ParseError::bad_dest_qpn:
      return Count::rx_bad_dest_qpn;
    default:
      return Count::rx_bad_payload;
  }
}

}  // namespace

void Engine::receive(std::span<const Frame> frames, Instant now) noexcept {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + 1 < frames.size()) __builtin_prefetch(frames[i + 1].bytes);
    receive_one(frames[i], now);
  }
}

void Engine::receive_one(const Frame& frame, Instant now) noexcept {
  WEFT_DCHECK(frame.path != nullptr && (frame.bytes != nullptr || frame.length == 0));
  counters_.add(Count::rx_packets);
  counters_.add(Count::rx_bytes, frame.length + frame.remote_length + frame.more_length);
  if (frame.path->destination_port == wire::kIntUdpPort) return receive_telemetry(frame, now);
  receive_packet(frame, nullptr, now);
}

// Removes the telemetry block; the rest is a frame like any other.
void Engine::receive_telemetry(const Frame& frame, Instant now) noexcept {
  const wire::IntBlock* const block = wire::find_int(frame.bytes, frame.length);
  if (block == nullptr) return count(Count::rx_bad_telemetry);
  Frame rest = frame;
  rest.bytes += sizeof *block;
  rest.length -= uint32_t{sizeof *block};
  receive_packet(rest, block, now);
}

void Engine::receive_packet(const Frame& frame, const wire::IntBlock* telemetry,
                            Instant now) noexcept {
  const uint32_t external_payload_length = frame.remote_length + frame.more_length;
  wire::Packet packet;
  const uint32_t icrc_length = this->icrc_length(*frame.path);
  const wire::ParseError error =
      wire::parse(frame.bytes, frame.length, icrc_length, external_payload_length, packet);
  if (error != wire::ParseError::none) {
    if (wire::LivenessRequest::is_of_rc(frame.bytes, frame.length)) return;
    return count(parse_count(error));
  }
  packet.telemetry = telemetry;
  //= roce:C-ICRC-15 threat:A12 before any state is touched
  const uint16_t udp_port = telemetry != nullptr ? wire::kIntUdpPort : kRocePort;
  if (icrc_length != 0 && !verify_icrc(frame, udp_port)) return count(Count::rx_icrc_error);
  if (packet.dest_qpn == kMulticastQpn) return receive_multicast(packet, frame);
  QueuePair* qp = qps_.find(packet.dest_qpn);
  if (qp == nullptr) {
    if (packet.dest_qpn == wire::kGsiQpn && gsi_.services() != nullptr) {
      gsi_.receive(*this, packet, frame, now);
      return services_changed();
    }
    port_.forget(packet.dest_qpn);  // the port may steer the flow of a destroyed queue pair here
    return count(Count::rx_unknown_qp);
  }
  //= roce:C-HDR-9
  const wire::OpClass service = packet.info->op_class;
  const bool is_cnp = service == wire::OpClass::cnp;
  if (service != qp->service && !is_cnp) return count(Count::rx_wrong_service);
  //= roce:C-STATE-60
  const bool response = packet.info->response();
  const bool takes = is_cnp     ? qp->can_request() || qp->can_respond()
                     : response ? qp->can_request()
                                : qp->can_respond();
  if (!takes) return count(Count::rx_wrong_state);
  //= roce:C-AV-97 threat:A01 threat:A11 threat:A14 and any UDP port: roce:C-HDR-117
  if (frame.path->source != qp->path.destination && service != wire::OpClass::ud)
    return count(Count::rx_bad_source);
  if ((packet.pkey & 0x7FFF) != 0x7FFF)
    return count(Count::rx_bad_pkey);  //= roce:C-OPS-86 roce:C-OPS-133
  if ((telemetry != nullptr) != qp->telemetry) return count(Count::rx_unagreed_telemetry);
  if (is_cnp) {
    // With telemetry, a CNP whose BECN bit is clear reports READ responses (lib/wire/INT.md).
    if (telemetry != nullptr && !packet.becn) return rc::on_report(*this, *qp, packet, now);
    count(Count::rx_cnps);
    return rc::on_cnp(*this, *qp, now);
  }
  if (frame.ecn == 3) {  //= roce:C-CC-126
    count(Count::rx_ecn_marked);
    if (config_.habits.answers_marks && qp->type != QpType::ud &&
        packet.info->operation != wire::Operation::acknowledge)
      notices_.queue_cnp(*qp, now, config_.cnp_interval);
  }
  if (telemetry != nullptr && !telemetry->is_echo())
    rc::note_telemetry(*qp, *telemetry, frame.ecn == 3);
  if (response) return rc::on_response(*this, *qp, packet, frame, now);
  if (!qp->established) raise_first_request(*qp, now);
  if (qp->reliable()) return rc::on_request(*this, *qp, packet, frame, now);
  if (service == wire::OpClass::uc) return uc::on_request(*this, *qp, packet, frame);
  ud::on_datagram(*this, *qp, packet, frame);
}

// The first request of the peer implies that it is ready: the RTU may have been lost.
void Engine::raise_first_request(QueuePair& qp, Instant now) noexcept {
  WEFT_DCHECK(!qp.established && qp.can_respond());
  qp.established = true;
  if (qp.state == QpState::rtr) raise(EventType::comm_established, qp.number);
  if (GeneralServices* const services = gsi_.services(); services != nullptr)
    services->on_first_request(qp.number, qp.path.destination, qp.peer, now);
}

// Delivers a datagram to each member of the group, but not back to its sender.
//= roce:C-OPS-87 roce:C-HDR-10 roce:C-HDR-120
void Engine::receive_multicast(const wire::Packet& packet, const Frame& frame) noexcept {
  if (packet.info->op_class != wire::OpClass::ud) return count(Count::rx_wrong_service);
  if (packet.telemetry != nullptr) return count(Count::rx_unagreed_telemetry);
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return count(Count::rx_bad_pkey);
  const std::span<QueuePair* const> members = groups_.members(frame.path->destination);
  if (members.empty()) return count(Count::rx_no_group);
  if (frame.ecn == 3) count(Count::rx_ecn_marked);
  const bool ours = frame.path->source == port_.address();
  for (QueuePair* const qp : members) {
    if (ours && packet.deth().source_qpn == qp->number.value) continue;
    if (qp->can_respond())
      ud::on_datagram(*this, *qp, packet, frame);
    else
      count(Count::rx_wrong_state);
  }
}

}  // namespace weft::roce
