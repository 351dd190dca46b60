// SPDX-License-Identifier: BSD-3-Clause
// The transport headers of RoCEv2 as structs of big-endian integers (IBTA chapter 9), which are
// overlaid on packet bytes after parse.hpp has checked the length.
#pragma once

#include "lib/base/bytes.hpp"
#include "weft/types.hpp"

namespace weft::wire {

// Queue pair 1 takes management datagrams (GSI).
inline constexpr QpNum kGsiQpn{1};

using base::Be16;
using base::Be24;
using base::Be32;
using base::Be64;

// Base transport header. //= roce:C-HDR-1
struct Bth {
  uint8_t opcode = 0;
  uint8_t flags = 0;  // SE:1 M:1 pad:2 tver:4
  Be16 pkey = 0xFFFF;
  uint8_t resv8a = 0;  // F:1 B:1 resv:6; outside the ICRC
  Be24 dest_qpn = 0u;
  uint8_t ack_resv = 0;  // A:1 resv:7
  Be24 psn = 0u;

  bool solicited() const { return flags & 0x80; }
  bool mig_req() const { return flags & 0x40; }
  uint8_t pad() const { return (flags >> 4) & 3; }
  uint8_t tver() const { return flags & 0x0F; }
  bool fecn() const { return resv8a & 0x80; }
  bool becn() const { return resv8a & 0x40; }
  bool ack_request() const { return ack_resv & 0x80; }
};
static_assert(sizeof(Bth) == 12 && alignof(Bth) == 1);

// RDMA extended transport header: WRITE first/only, READ request.
struct Reth {
  Be64 address;
  Be32 rkey;
  Be32 length;
};
static_assert(sizeof(Reth) == 16);

// ACK extended transport header.
struct Aeth {
  uint8_t syndrome = 0;
  Be24 msn = 0u;
};
static_assert(sizeof(Aeth) == 4);

// Of weft's selective acknowledgement, behind the AETH: SACK.md. The payload is a bitmap.
struct SackEth {
  uint8_t reserved1 = 0;
  Be24 expected = 0u;  // PSN of the first bit; all before it arrived
  uint8_t reserved2 = 0;
  Be24 lost_end = 0u;  // PSN: what is missing before it is lost
};
static_assert(sizeof(SackEth) == 8);

struct AtomicEth {
  Be64 address;
  Be32 rkey;
  Be64 swap_or_add;
  Be64 compare;
};
static_assert(sizeof(AtomicEth) == 28);

struct AtomicAckEth {
  Be64 original;
};

// FLUSH extended transport header (IBTA 1.5, A19.5.4); a RETH follows it.
struct Feth {
  Be32 bits;  // reserved:26 selectivity:2 placement:4
  uint32_t placement() const { return bits & 0xF; }
  uint32_t selectivity() const { return bits >> 4 & 3; }
};
static_assert(sizeof(Feth) == 4);
inline constexpr uint32_t kPlaceVisible = 1;
inline constexpr uint32_t kPlacePersistent = 2;
inline constexpr uint32_t kSelectRange = 0;
inline constexpr uint32_t kSelectRegion = 1;

// XRC extended transport header (IBTA, annex XRC): the shared receive queue of a request.
struct Xrceth {
  uint8_t reserved = 0;
  Be24 srq;
};
static_assert(sizeof(Xrceth) == 4);

struct Deth {
  Be32 qkey;
  uint8_t reserved = 0;
  Be24 source_qpn = 0u;
};
static_assert(sizeof(Deth) == 8);

// AETH syndromes (IBTA table 45). The low 5 bits are a credit code, an RNR timer or a NAK code.
inline constexpr uint8_t kSyndromeAck = 0x00;
inline constexpr uint8_t kSyndromeRnr = 0x20;
inline constexpr uint8_t kSyndromeNak = 0x60;
inline constexpr uint8_t kSyndromeKindMask = 0x60;
inline constexpr uint8_t kSyndromeValueMask = 0x1F;
inline constexpr uint8_t kNakSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperation = 0x63;
// RD: an invalid request; XRC: no such queue in the domain
inline constexpr uint8_t kNakInvalidRd = 0x64;
inline constexpr uint8_t kCreditUnlimited = 31;

}  // namespace weft::wire
