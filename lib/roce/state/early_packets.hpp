// SPDX-License-Identifier: BSD-3-Clause
// Requests that came early: behind a gap in the PSNs. They are kept, as bytes, until what is
// missing has come, and then executed in PSN order, so that reordering costs next to nothing and
// the answer to a loss reaches far; nothing of them is visible before. Memory is bounded: one pool
// for the engine, made when it is (and touched only as far as it is used), and a window for each
// queue pair.
//
// A gap is a packet that is late or one that is lost, and only time tells. The NAK, which makes the
// peer go back, waits for `patience`; that is learned from the queue pair's own gaps (Gap).
//
// A forger who knows both addresses and the QPN may put a packet where the stream will come by. So
// an early packet is executed only if one of the next few behind it has come too (or it comes now),
// and one that comes twice with different bytes is forgotten: two forgeries would have to hit
// neighbouring PSNs while the true packets are missing. //= threat:A02
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce::rc {

inline constexpr int32_t kEarlyWindow = 512;  // PSNs ahead that are kept
inline constexpr uint16_t kNoSlot = 0xFFFF;

// The early packets of one queue pair, by PSN.
struct EarlyLine {
  uint16_t first = kNoSlot;
  uint16_t last = kNoSlot;
  bool empty() const { return first == kNoSlot; }
};

class EarlyPackets {
 public:
  // `trailer`: bytes of ICRC at the end of a frame, 0 where ports carry none. `slots`: packets kept
  // at most, 1 to 65534.
  EarlyPackets(uint32_t trailer, uint16_t slots);

  // no: it is too long, elsewhere, or there is no place. doubtful: another of this PSN is here,
  // with other bytes; neither is kept.
  enum class Kept : uint8_t { yes, already, doubtful, no };
  Kept keep(EarlyLine& line, Psn psn, const Frame& frame) noexcept;
  // PSN and bytes of the first; the line is not empty. The frame's path is not kept.
  Psn first_psn(const EarlyLine& line) const noexcept { return slots_[line.first].psn; }
  // Whether the second is one of the `count` from `psn` on.
  bool second_within(const EarlyLine& line, Psn psn, int32_t count) const noexcept {
    const uint16_t second = slots_[line.first].next;
    return second != kNoSlot && slots_[second].psn - psn < count;
  }
  Frame first(const EarlyLine& line) const noexcept;
  void drop_first(EarlyLine& line) noexcept { drop(line, line.first); }
  void clear(EarlyLine& line) noexcept;

 private:
  static constexpr uint32_t kSlotBytes = 4096 + 64;  // the largest path MTU and its headers
  struct Slot {
    Psn psn;
    uint32_t length = 0;
    uint32_t more_length = 0;
    uint16_t previous = kNoSlot;
    uint16_t next = kNoSlot;  // of its line, or of the free ones
  };
  bool same(uint16_t slot, const Frame& frame) const noexcept;
  void drop(EarlyLine& line, uint16_t slot) noexcept;
  std::byte* bytes(uint16_t slot) const noexcept {
    return bytes_.get() + slot * size_t{kSlotBytes};
  }

  const uint32_t trailer_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<std::byte[]> bytes_;
  uint16_t free_ = 0;
};

// What a responder knows of its gap and of gaps in general.
struct Gap {
  static constexpr Duration kLeastPatience = Duration::from_us(20);
  static constexpr Duration kMostPatience = Duration::from_us(2000);

  EarlyLine early;
  Psn refused;           // the last PSN that a NAK asked for
  bool suspect = false;  // it has come, once: was it lost, or late?
  Duration lateness;     // of that packet
  Duration patience = Duration::from_us(40);
  Instant since = Instant::never();   // a packet is missing
  Instant nak_at = Instant::never();  // and still is: then it counts as lost
  bool doubt = false;                 // it is here, but may be forged

  bool closed() const { return early.empty() && since.is_never(); }
  // A packet is missing, others are there.
  void open(Instant now, bool in_doubt = false) noexcept;
  // It has come. `after_nak`: perhaps only because we asked for it.
  void close(Psn psn, bool after_nak, Instant now) noexcept;
  // `psn` came again.
  void on_duplicate(Psn psn) noexcept;

 private:
  void grow(Duration lateness) noexcept;
};

}  // namespace weft::roce::rc
