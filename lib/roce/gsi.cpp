// SPDX-License-Identifier: BSD-3-Clause
// See gsi.hpp.
#include "lib/roce/gsi.hpp"

#include "lib/roce/message/receive.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce {

namespace {
constexpr uint32_t kGsiQkey = 0x80010000;
constexpr uint32_t kMadLength = 256;
constexpr uint16_t kSourcePort = 0xC001;  // one flow for all MADs
}  // namespace

//= roce:C-HDR-10 roce:C-OPS-85
void Gsi::receive(EngineState& engine, const wire::Packet& packet, const Frame& frame,
                  Instant now) noexcept {
  WEFT_DCHECK(services_ != nullptr && packet.dest_qpn == wire::kGsiQpn);
  if (packet.info->op_class != wire::OpClass::ud) return engine.count(Count::rx_wrong_service);
  if (packet.telemetry != nullptr) return engine.count(Count::rx_unagreed_telemetry);
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return engine.count(Count::rx_bad_pkey);
  if (packet.deth().qkey != kGsiQkey) return engine.count(Count::rx_bad_qkey);
  if (frame.path->destination.is_multicast()) return engine.count(Count::rx_bad_dest_qpn);
  if (packet.payload_length != kMadLength || packet.deth().source_qpn != wire::kGsiQpn.value)
    return engine.count(Count::rx_bad_payload);
  std::array<std::byte, kMadLength> bytes;
  if (copy_payload(engine, bytes.data(), packet, frame, 0, kMadLength) != Placed::ok)
    return engine.count(Count::rx_pull_failed);
  services_->on_datagram(bytes, frame.path->source, now);
}

void Gsi::transmit(Port& port, FrameBuilder& out, bool migrated) noexcept {
  WEFT_DCHECK(services_ != nullptr);
  while (services_->wants_transmit() && out.has_room()) {
    const ManagementDatagram* const datagram = services_->next_datagram();
    WEFT_DCHECK(datagram != nullptr);
    Path path;
    path.source = port.address();
    path.destination = datagram->to;
    path.source_port = port.source_port(kSourcePort, 0);
    const uint32_t length = wire::opcode_info(wire::kUdSendOnly).header_length;
    std::byte* at = out.start(out.keep(path), length, kMadLength);
    at = wire::emit_bth(at, {.opcode = wire::kUdSendOnly,
                             .dest = wire::kGsiQpn,
                             .psn = next_psn_,
                             .mig_req = migrated});
    wire::emit_deth(at, kGsiQkey, wire::kGsiQpn);
    out.add_safe_payload(datagram->bytes.data(), kMadLength);
    out.finish();
    next_psn_ = next_psn_ + 1;
  }
}

}  // namespace weft::roce
