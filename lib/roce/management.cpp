// SPDX-License-Identifier: BSD-3-Clause
// Queue pair 1 of the engine: management datagrams to and from the general services. It has no
// receives and no completions: what cannot be taken at once is lost, as datagrams may be.
#include <algorithm>
#include <cstring>

#include "lib/roce/engine.hpp"
#include "lib/roce/message/payload.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce {

namespace {
constexpr uint32_t kGsiQkey = 0x80010000;
constexpr uint32_t kMadLength = 256;
constexpr uint16_t kSourcePort = 0xC001;  // one way for all of them
}  // namespace

//= roce:C-HDR-10 roce:C-OPS-85
void Engine::receive_management(const wire::Packet& packet, const Frame& frame,
                                Instant now) noexcept {
  if (packet.info->op_class != wire::OpClass::ud) return count(Count::rx_wrong_service);
  if (packet.telemetry != nullptr) return count(Count::rx_unagreed_telemetry);
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return count(Count::rx_bad_pkey);
  if (packet.deth().qkey != kGsiQkey) return count(Count::rx_bad_qkey);
  if (frame.path->destination.is_multicast()) return count(Count::rx_bad_dest_qpn);
  if (packet.payload_length != kMadLength || packet.deth().source_qpn != wire::kGsiQpn.value)
    return count(Count::rx_bad_payload);
  std::array<std::byte, kMadLength> bytes;
  if (copy_payload(*this, bytes.data(), packet, frame, 0, kMadLength) != Placed::ok)
    return count(Count::rx_pull_failed);
  services_->on_datagram(bytes, frame.path->source, now);
  services_changed();
}

void Engine::transmit_management() noexcept {
  while (services_->wants_transmit() && builder_.has_room()) {
    const ManagementDatagram& datagram = *services_->next_datagram();
    Path path;
    path.source = port_.address();
    path.destination = datagram.to;
    path.source_port = port_.source_port(kSourcePort, 0);
    const uint32_t length = wire::opcode_info(wire::kUdSendOnly).header_length;
    std::byte* at = builder_.start(builder_.keep(path), length, kMadLength);
    at = wire::emit_bth(
        at, {.opcode = wire::kUdSendOnly, .dest = wire::kGsiQpn, .psn = management_psn_});
    wire::emit_deth(at, kGsiQkey, wire::kGsiQpn);
    builder_.add_safe_payload(datagram.bytes.data(), kMadLength);
    builder_.finish();
    management_psn_ = management_psn_ + 1;
  }
}

void Engine::services_changed() noexcept {
  next_deadline_ = std::min(next_deadline_, services_->next_deadline());
}

}  // namespace weft::roce
