// SPDX-License-Identifier: BSD-3-Clause
// Each frame is copied, changed and signed again (deviating_port.hpp).
#include "providers/port/middleware/deviating_port.hpp"

#include <algorithm>

#include "lib/wire/forge.hpp"
#include "lib/wire/headers.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::middleware {

namespace {

using transport::Frame;
using transport::TxFrame;

constexpr uint8_t kMigReq = 0x40, kVersion = 0x0F, kCnp = 0x81, kEcnBits = 3;
constexpr uint16_t kLimitedKey = 0x7FFF;
constexpr uint8_t kEarlyRnr = wire::kSyndromeRnr | 12;  // 0.64 ms

std::string all_names() {
  std::string text;
  for (const std::string_view name : kDeviationNames)
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

wire::Bth& bth_of(HeldFrame& held) noexcept { return *reinterpret_cast<wire::Bth*>(held.bytes); }

// The AETH that follows the BTH, if the opcode has one and it is whole.
wire::Aeth* aeth_of(HeldFrame& held) noexcept {
  const bool has = wire::opcode_info(bth_of(held).opcode).aeth &&
                   held.length >= wire::kBthLength + sizeof(wire::Aeth) + wire::kIcrcLength;
  return has ? reinterpret_cast<wire::Aeth*>(held.bytes + wire::kBthLength) : nullptr;
}

bool is_acknowledgement(HeldFrame& held) noexcept {
  const wire::Aeth* const aeth = aeth_of(held);
  return aeth != nullptr && !wire::opcode_info(bth_of(held).opcode).payload &&
         (aeth->syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}

bool is_roce(const HeldFrame& held) noexcept {
  return held.path.destination_port != wire::kIntUdpPort &&
         held.length >= wire::kBthLength + wire::kIcrcLength;
}

void sign(HeldFrame& held) noexcept {
  wire::sign({&held.path.source, &held.path.destination, held.path.source_port,
              held.path.destination_port, held.ip_id},
             {held.bytes, held.length});
}

}  // namespace

Result<std::unique_ptr<transport::Port>> DeviatingPort::wrap(std::unique_ptr<transport::Port> inner,
                                                             std::string_view names) {
  Chosen chosen{};
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('+'));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto known = std::find(kDeviationNames.begin(), kDeviationNames.end(), name);
    if (known == kDeviationNames.end())
      return Error{
          Code::invalid_argument,
          "deviate=" + std::string(name) + ": no such deviation; joined by '+' are " + all_names()};
    chosen[static_cast<size_t>(known - kDeviationNames.begin())] = true;
  }
  return std::unique_ptr<transport::Port>(new DeviatingPort(std::move(inner), chosen));
}

DeviatingPort::DeviatingPort(std::unique_ptr<transport::Port> inner, const Chosen& chosen)
    : WrappingPort(std::move(inner)), chosen_(chosen), capabilities_(inner_->capabilities()) {
  constexpr uint32_t kLargestMtu = 4096;
  capabilities_.max_mtu = std::min(capabilities_.max_mtu, kLargestMtu);
  capabilities_.active_mtu = std::min(capabilities_.active_mtu, kLargestMtu);
  capabilities_.train_frames = 1;
  capabilities_.train_bytes = 0;
  capabilities_.gather = capabilities_.signs = capabilities_.by_reference = false;
  capabilities_.reference_threshold = 0;
  received_.resize(kBurst);
  lent_.reserve(kBurst);
}

void DeviatingPort::change_headers(HeldFrame& held) noexcept {
  wire::Bth& bth = bth_of(held);
  if (does(Deviation::migreq)) bth.flags &= static_cast<uint8_t>(~kMigReq);
  if (does(Deviation::pkey)) bth.pkey = kLimitedKey;
  if (does(Deviation::cnp_class) && bth.opcode == kCnp) held.path.traffic_class = 0;
  const uint32_t end = held.length - wire::kIcrcLength;
  if (does(Deviation::pad) && end >= wire::kBthLength + bth.pad())
    std::fill(held.bytes + end - bth.pad(), held.bytes + end, std::byte{0xFF});
}

void DeviatingPort::change_answer(HeldFrame& held) noexcept {
  wire::Aeth* const aeth = aeth_of(held);
  if (aeth == nullptr) return;
  if (does(Deviation::msn)) aeth->msn = 0u;
  if (does(Deviation::nak_code) && aeth->syndrome == wire::kNakInvalidRequest)
    aeth->syndrome = wire::kNakRemoteAccess;
  if (!is_acknowledgement(held)) return;
  if (does(Deviation::early_rnr) && std::exchange(early_rnr_due_, false))
    aeth->syndrome = kEarlyRnr;
}

// The ACK of a duplicate names what the ACK before it has named.
bool DeviatingPort::suppressed(HeldFrame& held) noexcept {
  if (!does(Deviation::no_dup_ack) || !is_acknowledgement(held)) return false;
  const std::pair<uint32_t, uint32_t> now{bth_of(held).dest_qpn, bth_of(held).psn};
  return std::exchange(acknowledged_, now) == now;
}

// False: the inner port is full.
bool DeviatingPort::send(const TxFrame& frame) noexcept {
  if (!assemble(sent_, frame)) return true;  // lost, as a frame whose memory has gone
  if (!is_roce(sent_)) return inner_->transmit({&frame, 1}) != 0;
  if (suppressed(sent_)) return true;
  change_headers(sent_);
  change_answer(sent_);
  sign(sent_);
  const TxFrame changed = to_send(sent_);
  if (inner_->transmit({&changed, 1}) == 0) return false;
  const wire::Aeth* const aeth = aeth_of(sent_);
  if (does(Deviation::repeat_nak) && aeth != nullptr && aeth->syndrome == wire::kNakSequence)
    inner_->transmit({&changed, 1});
  return true;
}

size_t DeviatingPort::transmit(std::span<const TxFrame> frames) noexcept {
  size_t sent = 0;
  while (sent < frames.size() && send(frames[sent])) ++sent;
  return sent;
}

// True if the bytes were changed.
bool DeviatingPort::change_received(HeldFrame& held) noexcept {
  wire::Bth& bth = bth_of(held);
  const wire::OpcodeInfo& info = wire::opcode_info(bth.opcode);
  if (info.operation == wire::Operation::send && info.ends_message()) early_rnr_due_ = true;
  const bool version = does(Deviation::any_version) && bth.tver() != 0;
  if (version) bth.flags &= static_cast<uint8_t>(~kVersion);
  if (version || does(Deviation::any_icrc)) sign(held);
  return version || does(Deviation::any_icrc);
}

size_t DeviatingPort::receive(std::span<Frame> frames) noexcept {
  frames = frames.first(std::min(frames.size(), kBurst));
  const size_t n = inner_->receive(frames);
  lent_.assign(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(n));
  for (size_t i = 0; i < n; ++i) {
    if (does(Deviation::no_ecn)) frames[i].ecn &= static_cast<uint8_t>(~kEcnBits);
    HeldFrame& held = received_[i];
    if (!assemble(held, frames[i]) || !is_roce(held) || !change_received(held)) continue;
    held.ecn = frames[i].ecn;
    frames[i] = to_receive(held);
  }
  return n;
}

void DeviatingPort::release(std::span<const Frame> frames) noexcept {
  (void)frames;  // all of the last receive()
  if (!lent_.empty()) inner_->release(lent_);
  lent_.clear();
}

}  // namespace weft::middleware
