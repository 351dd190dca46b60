// SPDX-License-Identifier: BSD-3-Clause
// The headers of SRD, our own multipath reliable datagram, as plain structs of big-endian integers.
// SRD.md in this folder documents every byte and what it means; this file is its translation.
#pragma once

#include <cstddef>

#include "lib/base/bytes.hpp"
#include "weft/types.hpp"

namespace weft::wire {

// Frames go to this UDP port.
inline constexpr uint16_t kSrdUdpPort = 4795;
inline constexpr uint8_t kSrdVersion = 2;

enum class SrdOpcode : uint8_t {
  // Sequenced: delivered once, acknowledged, repaired when lost.
  send = 1,
  write = 2,
  read_request = 3,
  read_response = 4,
  compare_swap = 5,
  fetch_add = 6,
  atomic_response = 7,
  write_add = 8,
  failure = 9,  // a READ could not be answered to its end; `detail` says why
  fill = 10,    // holds the place of a packet that will never be sent again
  abort = 11,   // the receiver forgets a message that was sent in part
  // Not sequenced: lost without harm.
  acknowledge = 16,
  refusal = 17,  // this packet was not executed; `detail` says why
  reset = 18,    // this stream is not known here (any more)
  ready = 19,    // a queue pair has a receive for one who waits for it
  trimmed = 20,  // of this packet only the headers came; `detail`: 1 if the last link cut it
  rails = 21,    // an endpoint has several addresses; asks for a way, or answers
  hello = 22,    // asks a process for its incarnation
  welcome = 23,  // tells it
};

// What a switch that trims writes into a packet's DSCP when it cuts the payload off.
inline constexpr uint8_t kTrimmedDscp = 60;
inline constexpr uint8_t kTrimmedLastHopDscp = 61;  // by the link to its host
constexpr bool is_trimmed(uint8_t traffic_class) {
  return traffic_class >> 2 == kTrimmedDscp || traffic_class >> 2 == kTrimmedLastHopDscp;
}

// Why a request was refused, or a response ended early: `detail` of refusal and failure.
enum class SrdReason : uint8_t {
  none = 0,
  no_receive = 1,     // no receive is posted: when `ready` comes
  busy = 2,           // too much is in progress: later
  no_queue_pair = 3,  // no such queue pair, or it is in no state to receive
  access = 4,         // key, domain, bounds or permission
  invalid = 5,        // the request makes no sense
  length = 6,         // longer than the receive
  memory = 7,         // a page is gone
  queue_key = 8,      // not the Q_Key of the queue pair
};

// What a WRITE_ADD adds: `detail` of write_add.
enum class SrdElement : uint8_t { int32 = 0, int64 = 1, fp32 = 2 };

namespace srd_flag {
inline constexpr uint8_t kAckRequest = 0x80;  // acknowledge at once
inline constexpr uint8_t kSolicited = 0x40;   // wakes who waits for solicited completions
inline constexpr uint8_t kRetransmission = 0x20;
inline constexpr uint8_t kFragment = 0x10;   // SrdFragment follows: the message has more packets
inline constexpr uint8_t kImmediate = 0x08;  // SrdImmediate follows
inline constexpr uint8_t kProtected = 0x04;  // authenticated encryption: protection.hpp
inline constexpr uint8_t kCreditRequest = 0x02;  // SrdCreditRequest follows
inline constexpr uint8_t kOrdered = 0x01;        // SrdOrder follows
}  // namespace srd_flag

using base::Be48;

// Opens every packet.
struct SrdBase {
  uint8_t opcode = 0;
  uint8_t version_pad = kSrdVersion << 4;  // version:4 pad:2 reserved:1 introduction:1
  uint8_t flags = 0;
  uint8_t path = 0;
  uint8_t digest = 0;      // written by switches, see raise_srd_digest; not covered by the trailer
  base::Be24 dest = 0u;    // queue pair, or endpoint (low 16 bits zero)
  base::Be32 epoch;        // of the stream
  base::Be64 incarnation;  // of the stream's receiver towards its sender; `hello`: 0
  base::Be16 path_sequence;
  Be48 sequence;
  uint8_t detail = 0;
  base::Be24 source = 0u;

  uint8_t version() const { return version_pad >> 4; }
  uint8_t pad() const { return (version_pad >> 2) & 3; }
  bool introduced() const { return (version_pad & 1) != 0; }
};
static_assert(sizeof(SrdBase) == 32 && alignof(SrdBase) == 1);

// In sequenced packets until one of their stream was acknowledged: who sends it, and where it
// begins.
struct SrdIntroduction {
  base::Be64 stamp;    // of the incarnation that the packet names, as in the welcome
  base::Be64 process;  // the sender's, towards the receiver
  Be48 first;          // sequence number of the stream
  base::Be16 reserved;
};
static_assert(sizeof(SrdIntroduction) == 24 && alignof(SrdIntroduction) == 1);

// Behind the base header of `hello` and `welcome`.
struct SrdHello {
  base::Be64 stamp;    // of the hello; the welcome repeats it
  base::Be64 process;  // the sender's, towards the receiver
  base::Be64
      incarnation;    // hello: what the welcome names; welcome: what packets to its sender name
  base::Be64 issued;  // welcome: stamp of `incarnation`; hello: 0
};
static_assert(sizeof(SrdHello) == 32 && alignof(SrdHello) == 1);

// Names a message of the sender, in packets that belong together or are answered.
struct SrdMessage {
  base::Be32 id;
};

struct SrdFragment {
  base::Be32 length;  // of the whole message
  base::Be32 offset;  // of this packet's payload
};
static_assert(sizeof(SrdFragment) == 8);

struct SrdRemote {
  base::Be64 address;  // of this packet's first byte
  base::Be32 rkey;
};
static_assert(sizeof(SrdRemote) == 12);

// Of what takes a receive: the Q_Key of the queue pair that has it.
struct SrdQueueKey {
  base::Be32 value;
};

struct SrdImmediate {
  base::Be64 value;
};

// Credit that the sender would like to have been granted in all, in units of 256 bytes.
struct SrdCreditRequest {
  base::Be32 units;
};

// The place of a SEND among the ordered ones of its stream.
struct SrdOrder {
  base::Be32 number;
};

// Behind the base header of an acknowledgement, with `words` 64-bit words of bitmap behind it.
struct SrdAck {
  base::Be32 echo;        // low half of the sequence of the packet that is echoed
  Be48 received_bytes;    // of this stream, wrapping
  base::Be32 delay_ns;    // from the arrival of that packet to this acknowledgement
  base::Be16 duplicates;  // packets that came twice, wrapping
  uint8_t flags = 0;      // bit 0: the echoed packet was ECN-marked
  uint8_t words = 0;      // of bitmap, at most kSrdMostWords
  base::Be16 marks;       // packets that came ECN-marked, wrapping
  base::Be32 granted;     // credit in all, in units of 256 bytes, wrapping
};
static_assert(sizeof(SrdAck) == 24);
inline constexpr uint32_t kSrdMostWords = 16;

// Behind the base header of a packet about rails, with `count` further addresses behind it, 16
// bytes each.
struct SrdRails {
  Gid primary;           // by which the sender is known
  base::Be32 challenge;  // an answer repeats that of the request; 0: no request
  uint8_t version = 1;   // of this body
  uint8_t answers = 0;   // 0 asks, 1 answers
  uint8_t count = 0;     // at most kSrdMostRails
  uint8_t reserved = 0;
};
static_assert(sizeof(SrdRails) == 24 && alignof(SrdRails) == 1);
inline constexpr uint8_t kSrdRailsVersion = 1;
inline constexpr uint32_t kSrdMostRails = 7;  // besides the primary address

// The operands of compare_swap and fetch_add.
struct SrdOperands {
  base::Be64 add_or_compare;
  base::Be64 swap;
};
static_assert(sizeof(SrdOperands) == 16);

// The longest headers: base, introduction, message, fragment, remote, immediate, Q_Key, credit
// request, order.
inline constexpr size_t kSrdLargestHeader =
    sizeof(SrdBase) + sizeof(SrdIntroduction) + sizeof(SrdMessage) + sizeof(SrdFragment) +
    sizeof(SrdRemote) + sizeof(SrdImmediate) + sizeof(SrdQueueKey) + sizeof(SrdCreditRequest) +
    sizeof(SrdOrder);
static_assert(kSrdLargestHeader == 100);

constexpr bool is_sequenced(SrdOpcode opcode) {
  return opcode >= SrdOpcode::send && opcode <= SrdOpcode::abort;
}

// What a switch does to an SRD packet that leaves it: the packet keeps the largest digest on its
// way (PINT's code of a port's utilisation, 1 to 255). Only sequenced packets carry one, and
// nothing else of them changes.
inline void raise_srd_digest(std::byte* bytes, uint32_t length, uint8_t digest) noexcept {
  if (length < sizeof(SrdBase)) return;
  SrdBase& base = *reinterpret_cast<SrdBase*>(bytes);
  if (base.version() != kSrdVersion || !is_sequenced(static_cast<SrdOpcode>(base.opcode))) return;
  if (digest > base.digest) base.digest = digest;
}
constexpr bool has_remote(SrdOpcode opcode) {
  return opcode == SrdOpcode::write || opcode == SrdOpcode::read_request ||
         opcode == SrdOpcode::compare_swap || opcode == SrdOpcode::fetch_add ||
         opcode == SrdOpcode::write_add;
}
// Has SrdQueueKey.
constexpr bool takes_receive(SrdOpcode opcode, uint8_t flags) {
  return opcode == SrdOpcode::send ||
         (opcode == SrdOpcode::write && (flags & srd_flag::kImmediate) != 0);
}
// Has SrdMessage.
constexpr bool names_message(SrdOpcode opcode, uint8_t flags) {
  switch (opcode) {
    case SrdOpcode::send:
    case SrdOpcode::write:
    case SrdOpcode::write_add:
      return (flags & srd_flag::kFragment) != 0;
    case SrdOpcode::fill:
      return false;
    default:
      return is_sequenced(opcode);
  }
}
// Operands and values are read where they lie, so they count as headers.
constexpr uint32_t operand_bytes(SrdOpcode opcode) {
  if (opcode == SrdOpcode::atomic_response) return 8;
  const bool atomic = opcode == SrdOpcode::compare_swap || opcode == SrdOpcode::fetch_add;
  return atomic ? sizeof(SrdOperands) : 0;
}
constexpr bool may_carry_payload(SrdOpcode opcode) {
  return opcode == SrdOpcode::send || opcode == SrdOpcode::write ||
         opcode == SrdOpcode::write_add || opcode == SrdOpcode::read_response;
}

}  // namespace weft::wire
