// SPDX-License-Identifier: BSD-3-Clause
// What the two ends of a link exchange besides pieces: their shape and addresses when they connect,
// and control messages of 256 bytes in the byte order of the host.
#pragma once

#include "lib/collective/run/piece.hpp"
#include "weft/weft.hpp"

namespace weft::collective {

inline constexpr uint32_t kCopyLimit = 8 * 1024;
// Of all classes but the least urgent: a copy costs less than the wait for an acknowledgement that
// is queued behind bulk data.
inline constexpr uint32_t kUrgentCopyLimit = 32 * 1024;
// Over RC, where ranks share a processor: a copy costs less than the wait until the peer's engine,
// which acknowledges, is scheduled.
inline constexpr uint32_t kOversubscribedCopyLimit = 32 * 1024;

// Both ends must have the same. A ring has the next power of two of slots.
struct LinkShape {
  uint32_t slots = 16;
  uint32_t payload = 64 * 1024;      // bytes of one slot; a multiple of 64
  uint32_t copy_limit = kCopyLimit;  // longer pieces are sent from the caller's memory
  bool operator==(const LinkShape&) const = default;
};
inline constexpr uint32_t kMaxSlots = 1024;

// credit: carries `consumed` only. probe: the sender waits for the receiver in this call. finished:
// the sender has sent all that it has for the receiver in this call. circular_wait: the ranks of a
// wait chain, the last of which waits for the receiver. cancel: the call is canceled, and the
// sender sends no more pieces of it.
enum class ControlKind : uint8_t {
  credit,
  probe,
  abort,
  leave,
  finished,
  advertise,
  circular_wait,
  cancel
};

// Rendezvous: where the sender may write one piece, and whether it writes or adds there.
struct Advertisement {
  uint64_t sequence = 0;  // of the call, which may have ended when the message arrives
  uint64_t address = 0;
  uint32_t index = 0;  // of the piece among those of the call in this direction
  uint32_t rkey = 0;
  uint32_t bytes = 0;
  enum class Place : uint8_t { slot, write, add } place = Place::slot;
  Element element = Element::fp32;  // of add
  uint8_t unused[2] = {};
};
static_assert(sizeof(Advertisement) == 32);
inline constexpr size_t kAdvertisements = 6;  // in one message

struct ControlMessage {
  ControlKind kind = ControlKind::credit;
  Code code = Code::ok;  // of abort
  // advertise, circular_wait: entries in `text`. probe: 1 if the sender has nothing to send before
  // it has received.
  uint16_t count = 0;
  uint32_t rank = 0;      // abort: the failed rank; cancel: the rank that canceled
  uint64_t consumed = 0;  // as in PieceHeader
  uint64_t sent = 0;      // pieces sent before this message, since the link exists
  Call call;              // probe, abort, finished, cancel
  // abort, cancel: the reason, for people; advertise: Advertisements; circular_wait: ranks, 32 bits
  // each.
  char text[192] = {};
};
static_assert(sizeof(ControlMessage) == 256);
static_assert(kAdvertisements * sizeof(Advertisement) <= sizeof(ControlMessage::text));

// Where the peer writes its pieces: the landing slots.
struct LinkAddress {
  uint64_t landing = 0;
  uint32_t rkey = 0;
  uint32_t unused = 0;
};

}  // namespace weft::collective
