// SPDX-License-Identifier: BSD-3-Clause
// SRD from bytes to a parsed packet, checked once, and back. Nothing past the end of a frame is
// ever read; what a packet of its opcode must have is there when parse says none.
#pragma once

#include <cstring>
#include <new>

#include "lib/wire/srd_headers.hpp"

namespace weft::wire {

enum class SrdError : uint8_t { none, too_short, bad_version, bad_opcode, bad_payload };

struct SrdPacket {
  SrdOpcode opcode{};
  uint8_t flags = 0;
  uint8_t path = 0;
  uint8_t detail = 0;
  uint8_t digest = 0;  // what switches left; trimmed: in the packet that was cut
  uint16_t path_sequence = 0;
  QpNum dest, source;
  uint32_t epoch = 0;
  uint64_t incarnation = 0;
  uint32_t message = 0;
  uint64_t sequence = 0;
  // Fragment; of a packet that is a whole message: offset 0 and length = payload_length.
  uint32_t length = 0;
  uint32_t offset = 0;
  uint64_t address = 0;  // remote
  uint32_t rkey = 0;
  uint64_t immediate = 0;
  uint32_t requested_credit = 0;
  uint32_t order = 0;
  uint32_t queue_key = 0;
  const SrdIntroduction* introduction = nullptr;
  const SrdHello* hello = nullptr;  // of hello and welcome
  const SrdAck* ack = nullptr;
  const SrdRails* rails = nullptr;  // its addresses follow it
  const std::byte* operands = nullptr;
  const std::byte* payload = nullptr;
  uint32_t payload_length = 0;  // pad excluded; payload outside the frame included

  bool has(uint8_t flag) const { return (flags & flag) != 0; }
  // Of compare_swap and fetch_add.
  const SrdOperands& two_operands() const {
    return *reinterpret_cast<const SrdOperands*>(operands);
  }
  // Of atomic_response.
  uint64_t value() const { return *reinterpret_cast<const base::Be64*>(operands); }
};

namespace detail {

// Bytes of the headers of a packet, the words of an acknowledgement and the addresses of rails left
// out; 0 for an opcode that does not exist.
constexpr uint32_t srd_header_length(SrdOpcode opcode, uint8_t flags, bool introduced = false) {
  uint32_t length = sizeof(SrdBase);
  if (names_message(opcode, flags)) length += sizeof(SrdMessage);
  if (opcode == SrdOpcode::acknowledge) return length + sizeof(SrdAck);
  if (opcode == SrdOpcode::rails) return length + sizeof(SrdRails);
  if (opcode == SrdOpcode::hello || opcode == SrdOpcode::welcome) return length + sizeof(SrdHello);
  if (opcode >= SrdOpcode::refusal && opcode <= SrdOpcode::trimmed) return length;
  if (!is_sequenced(opcode)) return 0;
  if (introduced) length += sizeof(SrdIntroduction);
  if (flags & srd_flag::kFragment) length += sizeof(SrdFragment);
  if (has_remote(opcode)) length += sizeof(SrdRemote);
  if (flags & srd_flag::kImmediate) length += sizeof(SrdImmediate);
  if (takes_receive(opcode, flags)) length += sizeof(SrdQueueKey);
  if (flags & srd_flag::kCreditRequest) length += sizeof(SrdCreditRequest);
  if (flags & srd_flag::kOrdered) length += sizeof(SrdOrder);
  return length + operand_bytes(opcode);
}

// Behind the base header of an acknowledgement, of which every other packet may be one: nothing but
// its body and its bitmap. `length`: of all.
inline SrdError srd_parse_acknowledgement(const std::byte* bytes, uint32_t length,
                                          uint32_t icrc_length, uint32_t pad,
                                          uint32_t external_payload_length, SrdPacket& out) {
  constexpr uint32_t kFixed = sizeof(SrdBase) + sizeof(SrdAck);
  if (length < kFixed + pad + icrc_length) return SrdError::too_short;
  out.ack = reinterpret_cast<const SrdAck*>(bytes + sizeof(SrdBase));
  if (out.ack->words > kSrdMostWords) return SrdError::bad_payload;
  const uint32_t end = kFixed + out.ack->words * 8u + pad + icrc_length;
  if (length < end) return SrdError::too_short;
  out.payload = bytes + kFixed + out.ack->words * 8u;
  out.payload_length = out.length = out.offset = out.message = 0;
  return length == end && pad == 0 && external_payload_length == 0 ? SrdError::none
                                                                   : SrdError::bad_payload;
}

// The body of a packet about rails: what its list takes is added to `headers`.
inline SrdError srd_parse_rails(const std::byte* at, SrdPacket& out, uint32_t& headers) {
  out.rails = reinterpret_cast<const SrdRails*>(at);
  if (out.rails->version != kSrdRailsVersion) return SrdError::bad_version;
  if (out.rails->count > kSrdMostRails || out.rails->answers > 1) return SrdError::bad_payload;
  headers += out.rails->count * uint32_t{sizeof(Gid)};
  return SrdError::none;
}

}  // namespace detail

// What the base header alone says.
inline void srd_take_base(const SrdBase& base, SrdPacket& out) {
  out.opcode = static_cast<SrdOpcode>(base.opcode);
  out.flags = base.flags;
  out.path = base.path;
  out.detail = base.detail;
  out.digest = base.digest;
  out.path_sequence = base.path_sequence;
  out.dest = QpNum{base.dest};
  out.source = QpNum{base.source};
  out.epoch = base.epoch;
  out.incarnation = base.incarnation;
  out.sequence = base.sequence;
}

// Parses `length` bytes at `bytes`, of which the last `icrc_length` are the ICRC (4, or 0 on
// ports that carry none). `external_payload_length`: payload bytes outside the frame (by
// reference); then the frame must have no payload and no pad.
inline SrdError srd_parse(const std::byte* bytes, uint32_t length, uint32_t icrc_length,
                          uint32_t external_payload_length, SrdPacket& out) {
  if (length < sizeof(SrdBase) + icrc_length) return SrdError::too_short;
  const auto& base = *reinterpret_cast<const SrdBase*>(bytes);
  if (base.version() != kSrdVersion) return SrdError::bad_version;
  srd_take_base(base, out);
  if (out.has(srd_flag::kProtected)) return SrdError::bad_version;
  if (out.opcode == SrdOpcode::acknowledge)
    return detail::srd_parse_acknowledgement(bytes, length, icrc_length, base.pad(),
                                             external_payload_length, out);
  uint32_t headers = detail::srd_header_length(out.opcode, base.flags, base.introduced());
  if (headers == 0) return SrdError::bad_opcode;
  if (length < headers + base.pad() + icrc_length) return SrdError::too_short;
  const std::byte* at = bytes + sizeof(SrdBase);
  if (out.opcode == SrdOpcode::rails)
    if (const SrdError error = detail::srd_parse_rails(at, out, headers); error != SrdError::none)
      return error;
  const uint32_t fixed = headers + base.pad() + icrc_length;
  if (length < fixed) return SrdError::too_short;
  out.payload = bytes + headers;
  out.payload_length = length - fixed + external_payload_length;
  out.message = out.offset = 0;
  out.length = out.payload_length;
  if ((out.payload_length | base.pad()) != 0 && !may_carry_payload(out.opcode))
    return SrdError::bad_payload;
  if (external_payload_length != 0 && length != fixed) return SrdError::bad_payload;
  if (!is_sequenced(out.opcode)) {
    if (out.opcode >= SrdOpcode::hello) out.hello = reinterpret_cast<const SrdHello*>(at);
    return base.introduced() ? SrdError::bad_payload : SrdError::none;
  }
  if (base.introduced()) {
    out.introduction = reinterpret_cast<const SrdIntroduction*>(at);
    at += sizeof(SrdIntroduction);
  }
  if (names_message(out.opcode, out.flags)) {
    out.message = reinterpret_cast<const SrdMessage*>(at)->id;
    at += sizeof(SrdMessage);
  }
  if (out.has(srd_flag::kFragment)) {
    const auto& fragment = *reinterpret_cast<const SrdFragment*>(at);
    out.length = fragment.length;
    out.offset = fragment.offset;
    at += sizeof(SrdFragment);
  }
  if (has_remote(out.opcode)) {
    const auto& remote = *reinterpret_cast<const SrdRemote*>(at);
    out.address = remote.address;
    out.rkey = remote.rkey;
    at += sizeof(SrdRemote);
  }
  if (out.has(srd_flag::kImmediate)) {
    out.immediate = reinterpret_cast<const SrdImmediate*>(at)->value;
    at += sizeof(SrdImmediate);
  }
  if (takes_receive(out.opcode, out.flags)) {
    out.queue_key = reinterpret_cast<const SrdQueueKey*>(at)->value;
    at += sizeof(SrdQueueKey);
  }
  if (out.has(srd_flag::kCreditRequest)) {
    out.requested_credit = reinterpret_cast<const SrdCreditRequest*>(at)->units;
    at += sizeof(SrdCreditRequest);
  }
  if (out.has(srd_flag::kOrdered)) {
    out.order = reinterpret_cast<const SrdOrder*>(at)->number;
    at += sizeof(SrdOrder);
  }
  out.operands = at;
  const bool asks_length = out.opcode == SrdOpcode::read_request;
  return asks_length && !out.has(srd_flag::kFragment) ? SrdError::bad_payload : SrdError::none;
}

// Bytes that srd_emit writes for `p`; operands, and the bodies of acknowledgements and of packets
// about rails, follow them and belong to the headers.
constexpr uint32_t srd_emit_length(const SrdPacket& p) {
  const uint32_t body = p.opcode == SrdOpcode::acknowledge ? sizeof(SrdAck)
                        : p.opcode == SrdOpcode::rails     ? sizeof(SrdRails)
                                                           : 0;
  const bool introduced = p.introduction != nullptr;
  return detail::srd_header_length(p.opcode, p.flags, introduced) - operand_bytes(p.opcode) - body;
}

// Writes the headers of `p` at `at` and returns the address behind them. `pad`: bytes behind the
// payload.
inline std::byte* srd_emit(std::byte* at, const SrdPacket& p, uint8_t pad) noexcept {
  SrdBase& base = *new (at) SrdBase;  // in its place: what is copied late is read too early
  at += sizeof base;
  base.opcode = static_cast<uint8_t>(p.opcode);
  const bool introduced = p.introduction != nullptr && is_sequenced(p.opcode);
  base.version_pad = static_cast<uint8_t>(kSrdVersion << 4 | pad << 2 | introduced);
  base.flags = p.flags;
  base.path = p.path;
  base.digest = p.digest;
  base.dest = p.dest.value;
  base.epoch = p.epoch;
  base.incarnation = p.incarnation;
  base.path_sequence = p.path_sequence;
  base.sequence = p.sequence;
  base.detail = p.detail;
  base.source = p.source.value;
  const auto put = [&at](const auto& header) {
    std::memcpy(at, &header, sizeof header);
    at += sizeof header;
  };
  if (!is_sequenced(p.opcode)) {
    if (p.opcode >= SrdOpcode::hello && p.hello != nullptr) put(*p.hello);
    return at;
  }
  if (introduced) put(*p.introduction);
  if (names_message(p.opcode, p.flags)) put(SrdMessage{p.message});
  if (p.has(srd_flag::kFragment)) put(SrdFragment{p.length, p.offset});
  if (has_remote(p.opcode)) put(SrdRemote{p.address, p.rkey});
  if (p.has(srd_flag::kImmediate)) put(SrdImmediate{p.immediate});
  if (takes_receive(p.opcode, p.flags)) put(SrdQueueKey{p.queue_key});
  if (p.has(srd_flag::kCreditRequest)) put(SrdCreditRequest{p.requested_credit});
  if (p.has(srd_flag::kOrdered)) put(SrdOrder{p.order});
  return at;
}

}  // namespace weft::wire
