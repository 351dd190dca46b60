// SPDX-License-Identifier: BSD-3-Clause
// Parsing of a packet: all lengths are checked once, the result is a view of headers (in host byte
// order) and payload. Never reads past the end of the frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/check.hpp"
#include "lib/wire/headers.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::wire {

enum class ParseError : uint8_t {
  none,
  too_short,     // shorter than BTH + extended headers + pad + ICRC (//= roce:C-HDR-4)
  bad_version,   // TVer != 0 (//= roce:C-HDR-2)
  bad_opcode,    // reserved opcode (//= roce:C-HDR-5)
  bad_payload,   // payload where the opcode has none
  bad_dest_qpn,  // QPN 0 (//= roce:C-HDR-10)
};

struct IntBlock;

struct Packet {
  const OpcodeInfo* info = nullptr;
  uint8_t opcode = 0;
  bool solicited = false;
  bool ack_request = false;
  bool becn = false;
  uint8_t pad = 0;
  uint16_t pkey = 0;
  QpNum dest_qpn;
  Psn psn;
  const std::byte* headers = nullptr;  // the first extended header behind BTH and XRCETH
  const std::byte* payload = nullptr;
  uint32_t payload_length = 0;          // pad excluded
  const IntBlock* telemetry = nullptr;  // the telemetry block before the BTH, if any

  // Extended headers, in the order of the opcode table: RETH (after FETH) | AETH | AtomicETH | DETH
  // first, then ImmDt | IETH | AtomicAckETH. Only for opcodes that have them.
  const Reth& reth() const {
    WEFT_DCHECK(info->reth);
    return *reinterpret_cast<const Reth*>(headers + (info->feth ? sizeof(Feth) : 0));
  }
  const Xrceth& xrceth() const {
    WEFT_DCHECK(info->xrceth);
    return *reinterpret_cast<const Xrceth*>(headers - sizeof(Xrceth));
  }
  const Feth& feth() const {
    WEFT_DCHECK(info->feth);
    return *reinterpret_cast<const Feth*>(headers);
  }
  const Aeth& aeth() const {
    WEFT_DCHECK(info->aeth);
    return *reinterpret_cast<const Aeth*>(headers);
  }
  const SackEth& sack() const {
    WEFT_DCHECK(info->sack);
    return *reinterpret_cast<const SackEth*>(headers + sizeof(Aeth));
  }
  const AtomicEth& atomic_eth() const {
    WEFT_DCHECK(info->atomic_eth);
    return *reinterpret_cast<const AtomicEth*>(headers);
  }
  const Deth& deth() const {
    WEFT_DCHECK(info->deth);
    return *reinterpret_cast<const Deth*>(headers);
  }
  const AtomicAckEth& atomic_ack_eth() const {
    WEFT_DCHECK(info->atomic_ack_eth);
    return *reinterpret_cast<const AtomicAckEth*>(headers + sizeof(Aeth));
  }
  // ImmDt or IETH: the last four bytes before the payload.
  uint32_t imm_or_key() const {
    WEFT_DCHECK(info->imm || info->ieth);
    return *reinterpret_cast<const Be32*>(payload - 4);
  }
};

// Parses `length` bytes at `bytes`, of which the last `icrc_length` are the ICRC (4, or 0 on
// ports that carry none). `external_payload_length`: payload bytes outside the frame (by
// reference); then the frame must have no payload and no pad.
inline ParseError parse(const std::byte* bytes, uint32_t length, uint32_t icrc_length,
                        uint32_t external_payload_length, Packet& out) {
  WEFT_DCHECK((bytes != nullptr || length == 0) &&
              (icrc_length == 0 || icrc_length == kIcrcLength));
  if (length < kBthLength + icrc_length) return ParseError::too_short;
  const Bth& bth = *reinterpret_cast<const Bth*>(bytes);
  if (bth.tver() != 0) return ParseError::bad_version;
  const OpcodeInfo& info = opcode_info(bth.opcode);
  if (!info.known()) return ParseError::bad_opcode;  //= roce:C-HDR-122
  const uint32_t fixed = info.header_length + bth.pad() + icrc_length;
  if (length < fixed) return ParseError::too_short;
  out.payload_length = length - fixed + external_payload_length;
  if (!info.payload && (out.payload_length != 0 || bth.pad() != 0)) return ParseError::bad_payload;
  if (external_payload_length != 0 && length != fixed) return ParseError::bad_payload;
  out.info = &info;
  out.opcode = bth.opcode;
  out.solicited = bth.solicited();
  out.ack_request = bth.ack_request();
  out.becn = bth.becn();
  out.pad = bth.pad();
  out.pkey = bth.pkey;
  out.dest_qpn = QpNum{bth.dest_qpn};
  out.psn = Psn{bth.psn};
  out.headers = bytes + kBthLength + (info.xrceth ? sizeof(Xrceth) : 0);
  out.payload = bytes + info.header_length;
  WEFT_DCHECK(out.headers <= out.payload && out.payload <= bytes + length);
  if (out.dest_qpn.value == 0) return ParseError::bad_dest_qpn;
  return ParseError::none;
}

}  // namespace weft::wire
