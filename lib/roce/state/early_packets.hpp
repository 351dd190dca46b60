// SPDX-License-Identifier: BSD-3-Clause
// Requests that arrived ahead of a sequence gap. They are buffered as bytes until the missing ones
// have arrived, and then executed in PSN order, so that reordering costs little and go-back-N after
// a loss skips what is buffered; none has a visible effect earlier. Memory is bounded: one pool for
// the engine, allocated when the engine is created, and a window for each queue pair.
//
// A missing packet is late or lost, and only time tells which. The NAK, which makes the peer go
// back, waits for `nak_delay`, which adapts to the queue pair's own gaps (Gap).
//
// A forger who knows both addresses and the QPN may place a packet ahead of the stream. So an early
// packet is executed only if one of the next few PSNs behind it is early, too (or it arrives now),
// with selective repeat also if the one before it is, and two of one PSN with different bytes are
// both dropped: forgeries have to hit a neighbour of a true one, or to be two. //= threat:A02
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/check.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce {

// PSNs ahead that are buffered, at least and at most. What is farther ahead is more likely forged.
inline constexpr int32_t kEarlyWindow = 512, kMostEarlyWindow = 4096;
// Full packets that a path of this rate and round trip has in flight, within these bounds. The pool
// bounds the memory whatever the window.
uint16_t early_window(Rate line, Duration rtt, uint32_t mtu) noexcept;
// One of so many PSNs behind an early packet confirms it.
inline constexpr int32_t kConfirmedBy = 4;
inline constexpr uint16_t kNoSlot = 0xFFFF;

// The early packets of one queue pair, by ascending PSN.
struct EarlyList {
  uint16_t first = kNoSlot;
  uint16_t last = kNoSlot;
  bool empty() const { return first == kNoSlot; }
};

class EarlyPackets {
 public:
  // `slots`: packets buffered at most, 1 to 65534.
  explicit EarlyPackets(uint16_t slots);

  // no: too long, payload by reference, or no free slot. conflict: another packet of this PSN with
  // other bytes was buffered; both are dropped. `frame` is kept without its ICRC, the last
  // `icrc_length` bytes.
  enum class Kept : uint8_t { yes, already, conflict, no };
  // `packets`: PSNs that the request takes.
  Kept keep(EarlyList& list, Psn psn, uint32_t packets, Frame frame, uint32_t icrc_length) noexcept;
  // PSN and bytes of the first packet; the list is not empty. The frame's path is not kept.
  Psn first_psn(const EarlyList& list) const noexcept {
    WEFT_DCHECK(!list.empty());
    return slots_[list.first].psn;
  }
  // True if the second packet is one of the `count` PSNs from `psn` on.
  bool second_within(const EarlyList& list, Psn psn, int32_t count) const noexcept {
    WEFT_DCHECK(!list.empty());
    const uint16_t second = slots_[list.first].next;
    return second != kNoSlot && slots_[second].psn - psn < count;
  }
  // Without an ICRC.
  Frame first(const EarlyList& list) const noexcept;
  // Sets the bits of the PSNs that are held and confirmed, from `expected` on (lib/wire/SACK.md).
  void map(const EarlyList& list, Psn expected, std::span<std::byte> bitmap) const noexcept;
  void drop_first(EarlyList& list) noexcept { drop(list, list.first); }
  void clear(EarlyList& list) noexcept;
  // Checks that PSNs ascend, that links agree in both directions, and that all PSNs are less than
  // `window` from `expected`. Debug builds.
  void check(const EarlyList& list, Psn expected, int32_t window) const noexcept;

 private:
  static constexpr uint32_t kSlotBytes = 4096 + 64;  // the largest path MTU and its headers
  struct Slot {
    Psn psn;
    uint32_t packets = 0;
    uint32_t length = 0;
    uint32_t more_length = 0;
    uint16_t previous = kNoSlot;
    uint16_t next = kNoSlot;  // of its list, or of the free list
  };
  bool same(uint16_t slot, const Frame& frame) const noexcept;
  bool follows(const Slot& slot) const noexcept;
  void drop(EarlyList& list, uint16_t slot) noexcept;
  std::byte* bytes(uint16_t slot) const noexcept {
    return bytes_.get() + slot * size_t{kSlotBytes};
  }

  const uint16_t slot_count_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<std::byte[]> bytes_;
  uint16_t free_ = 0;
};

// A responder's sequence gap, and how long its NAK is delayed.
struct Gap {
  static constexpr Duration kMinNakDelay = Duration::from_us(20);
  static constexpr Duration kMaxNakDelay = Duration::from_us(2000);
  static constexpr uint8_t kRemembered = 16;  // losses, as in RFC 8985

  EarlyList early;
  Psn nak_psn;  // the PSN at which the last gap closed
  bool nak_judged =
      true;           // known whether that packet was lost or late; false: it arrived once so far
  Duration lateness;  // of that packet
  Duration nak_delay = Duration::from_us(40);
  Instant since = Instant::never();   // the gap is open; never(): closed
  Instant nak_at = Instant::never();  // then the missing packet counts as lost
  bool unconfirmed = false;           // the packet is buffered, but may be forged
  uint8_t reordered = 0;              // losses until the last late packet is forgotten

  // No packet was late of late.
  bool in_order() const { return reordered == 0; }
  bool closed() const { return early.empty() && since.is_never(); }
  // A packet is missing and later ones arrived.
  void open(Instant now, bool may_be_forged = false) noexcept;
  // It arrived. `after_nak`: possibly a retransmission.
  void close(Psn psn, bool after_nak, Instant now) noexcept;
  // `psn` arrived again.
  void on_duplicate(Psn psn) noexcept;

 private:
  void grow(Duration lateness) noexcept;
};

}  // namespace weft::roce
