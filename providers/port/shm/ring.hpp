// SPDX-License-Identifier: BSD-3-Clause
// One direction between two processes: a ring of 64-byte slots in shared memory, one slot a frame,
// and behind it a ring of bytes for frames that a slot cannot hold.
//
//   inline     the whole frame (<= 56 bytes) is in the slot: one cache line crosses, nothing else
//   split      headers in the slot, payload in the data ring
//   whole      the frame is in the data ring (headers too long for a slot, or not told apart)
//   reference  headers in the slot, payload stays in the sender's memory
//   long reference  headers in the data ring, too long for the slot; payload as above
//
// The sequence word of a slot says that it is filled, so the reader polls the very line that it
// wants; no index is shared in that direction. In the other direction the consumer publishes how
// many slots it is done with, and the producer looks only when it runs out of room.
//
// The two sides do not trust each other: each keeps its position in private memory, copies what it
// reads from shared memory before it checks it, and bounds its work. The worst that a hostile peer
// reaches is that its own frames are dropped and the link is cut.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/base/copy_short.hpp"
#include "lib/transport/frame.hpp"

namespace weft::port::shm {

inline constexpr size_t kCacheLine = 64;
inline constexpr uint32_t kLargestMtu = 1u << 20;
inline constexpr uint32_t kLargestFrame = kLargestMtu + 1024;  // headers and trailer included

enum class SlotKind : uint8_t { inline_frame, split, whole, reference, long_reference };

struct alignas(kCacheLine) Slot {
  std::atomic<uint64_t> label;  // a SlotLabel; stored last
  std::byte body[56];
};

// The first word of a slot: one store publishes it, one load tells all about it.
struct SlotLabel {
  uint32_t sequence;     // the frame's index + 1
  uint16_t head_length;  // bytes of the frame in the slot's body
  SlotKind kind;
  uint8_t ecn;

  // By shifts: compilers build the struct in memory otherwise, and read it back as one word.
  uint64_t word() const noexcept {
    return uint64_t{sequence} | uint64_t{head_length} << 32 |
           uint64_t{static_cast<uint8_t>(kind)} << 48 | uint64_t{ecn} << 56;
  }
  static SlotLabel of(uint64_t word) noexcept {
    return {static_cast<uint32_t>(word), static_cast<uint16_t>(word >> 32),
            static_cast<SlotKind>(static_cast<uint8_t>(word >> 48)),
            static_cast<uint8_t>(word >> 56)};
  }
};

// What `body` begins with for frames that do not fit it; headers follow. Of a long reference both,
// ReferencePlace first.
struct DataPlace {
  uint32_t offset;  // in the data ring
  uint32_t length;
};
struct ReferencePlace {
  uint64_t address;
  uint64_t length;
};
inline constexpr size_t kDataHead = sizeof(Slot::body) - sizeof(DataPlace);
inline constexpr size_t kReferenceHead = sizeof(Slot::body) - sizeof(ReferencePlace);
inline constexpr uint32_t kLongReferenceHead = 256;  // in the data ring
static_assert(sizeof(ReferencePlace) + sizeof(DataPlace) <= sizeof(Slot::body));
static_assert(sizeof(Slot) == kCacheLine && sizeof(SlotLabel) == sizeof(uint64_t));

// Who owns the memory that a reference names; one word per slot, apart from it because both sides
// change it after the slot is published.
using Claim = std::atomic<uint32_t>;
inline constexpr uint32_t kReady = 1;
inline constexpr uint32_t kClaimed = 2;  // the consumer may be reading it
inline constexpr uint32_t kRevoked = 3;  // the producer took it back

// Whether the consumer sleeps, in RingControl::consumer_state. From kAwake to kAsleep it issues a
// barrier in all processes that send to it, between kAsleep and kAwakeBriefly it has a fence, and
// the producer has one before it trusts kAwakeBriefly: a barrier interrupts other cores, and a
// thread that sleeps until the next frame would issue one for each.
inline constexpr uint32_t kAwake = 0;
inline constexpr uint32_t kAsleep = 1;  // ring the doorbell after a slot is filled
inline constexpr uint32_t kAwakeBriefly = 2;

// The first page of the shared memory: a line for each writer and rate of change.
struct RingControl {
  alignas(kCacheLine) std::atomic<uint32_t> producer_waits;  // wake it when slots become free
  alignas(kCacheLine) std::atomic<uint64_t> consumed;        // slots that may be used again
  alignas(kCacheLine) std::atomic<uint32_t> consumer_state;  // kAwake, kAsleep, kAwakeBriefly
  std::atomic<uint32_t> refuses_references;                  // pulling failed: copy from now on
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct RingGeometry {
  uint32_t slots = 0;       // a power of two
  uint64_t data_bytes = 0;  // a power of two

  static constexpr size_t kControlBytes = 4096;
  size_t data_offset() const {
    return kControlBytes + size_t{slots} * (sizeof(Slot) + sizeof(Claim));
  }
  size_t bytes() const { return data_offset() + data_bytes; }
  // Within the bounds that both sides agree on?
  bool valid() const {
    const auto power_of_two = [](uint64_t v) { return v != 0 && (v & (v - 1)) == 0; };
    return power_of_two(slots) && slots >= 64 && slots <= 65536 && power_of_two(data_bytes) &&
           data_bytes >= 65536 && data_bytes <= (1u << 30);
  }
};

// Where the parts lie in a mapping of geometry.bytes() bytes, page-aligned, zero at first: control,
// slots, claims, data.
struct RingView {
  RingControl* control = nullptr;
  Slot* slots = nullptr;
  Claim* claims = nullptr;
  std::byte* data = nullptr;

  RingView() = default;
  RingView(std::byte* memory, const RingGeometry& geometry);
};

class RingProducer {
 public:
  RingProducer(std::byte* memory, const RingGeometry& geometry);

  enum class Push : uint8_t {
    taken,
    full,        // call again later
    unreadable,  // the memory to send from is not mapped any more: nothing was sent
    too_long,    // no ring of this size can hold it
    corrupt,     // the consumer wrote nonsense: cut the link
  };
  // Copies a frame in and publishes it. Payload goes by reference if `by_reference` and the frame
  // allows it.
  Push push(const transport::TxFrame& frame, bool by_reference) noexcept;
  // The same for the frames that come in millions: in one piece and short enough for a slot. False:
  // it is not one of those, or there is no room; nothing was done.
  bool push_small(const transport::TxFrame& frame) noexcept;

  // Learns what was consumed. False: the consumer wrote nonsense.
  bool refresh() noexcept;
  // As many slots as are neither free nor known to be consumed.
  uint64_t outstanding() const noexcept { return produced_ - consumed_; }

  // Takes back references into [base, base + size) that the consumer did not claim yet. Returns the
  // number of slots that must be consumed before no claimed one is left: wait until consumed() >=
  // it.
  uint64_t revoke(const std::byte* base, size_t size) noexcept;
  uint64_t consumed() const noexcept { return consumed_; }

  // Asserts the relations between our own counters; what the consumer writes is checked by
  // refresh().
  void check_invariants() const noexcept {
    if constexpr (!base::kChecksInvariants) return;
    WEFT_DCHECK(produced_ - consumed_ <= mask_ + 1);
    WEFT_DCHECK(uses_head_ - uses_tail_ <= mask_ + 1);
    WEFT_DCHECK(data_tail_ <= data_head_ && data_head_ - data_tail_ <= data_size_);
    WEFT_DCHECK((mask_ & (mask_ + 1)) == 0 && (data_size_ & (data_size_ - 1)) == 0);
  }

  RingControl& control() noexcept { return *view_.control; }

 private:
  struct DataUse {
    uint64_t index;     // of the slot
    uint64_t data_end;  // the data ring is used up to here
    uint64_t address;   // by reference: what the slot names
    uint32_t length;    // 0 = nothing by reference
  };

  Push push_inline(const transport::TxFrame& frame, Slot& slot) noexcept;
  Push push_data(const transport::TxFrame& frame, Slot& slot, bool by_reference) noexcept;
  Push push_reference(const transport::TxFrame& frame, Slot& slot) noexcept;
  Push reserve(uint32_t length, uint64_t& position) noexcept;
  bool find_room(uint32_t length, uint64_t& position) const noexcept;
  void hold(uint64_t data_end, const ReferencePlace& reference) noexcept;
  void publish(Slot& slot, SlotKind kind, uint32_t head_length, uint8_t ecn) noexcept;

  RingView view_;
  uint64_t mask_;
  uint64_t produced_ = 0;
  uint64_t consumed_ = 0;  // as last seen
  uint64_t data_size_;
  uint64_t data_head_ = 0;           // next byte to use, counted without wrapping
  uint64_t data_tail_ = 0;           // first byte in use
  std::unique_ptr<DataUse[]> uses_;  // the slots that hold on to data or references, in order
  uint64_t uses_head_ = 0;
  uint64_t uses_tail_ = 0;
};

inline void RingProducer::publish(Slot& slot, SlotKind kind, uint32_t head_length,
                                  uint8_t ecn) noexcept {
  WEFT_DCHECK(&slot == &view_.slots[produced_ & mask_] && produced_ - consumed_ <= mask_);
  WEFT_DCHECK(head_length <= sizeof slot.body && (ecn & ~3) == 0);
  const SlotLabel label{static_cast<uint32_t>(++produced_), static_cast<uint16_t>(head_length),
                        kind, ecn};
  slot.label.store(label.word(), std::memory_order_release);
}

inline bool RingProducer::push_small(const transport::TxFrame& frame) noexcept {
  if (produced_ - consumed_ > mask_ || frame.head_length > sizeof Slot::body ||
      (frame.payload_length | frame.tail_length) != 0)
    return false;
  WEFT_DCHECK(frame.span_count == 0);
  Slot& slot = view_.slots[produced_ & mask_];
  base::copy_short(slot.body, frame.head, frame.head_length);
  publish(slot, SlotKind::inline_frame, frame.head_length, frame.ecn);
  return true;
}

// Private memory for frames whose headers must be copied out of the ring and do not fit one line.
struct Arena {
  std::byte* memory = nullptr;
  size_t size = 0;
  size_t used = 0;
};

// Private memory for the part of a frame that stood in its slot.
struct alignas(kCacheLine) SlotCopy {
  std::byte body[sizeof(Slot::body)];
};

class RingConsumer {
 public:
  RingConsumer(std::byte* memory, const RingGeometry& geometry);

  enum class Take : uint8_t {
    frame,
    empty,
    revoked,  // the sender took it back: nothing was received, go on
    no_room,  // the arena is full: release first
    corrupt,  // the producer wrote nonsense: cut the link
  };
  // The next frame. `copy` is private memory that the frame's headers are copied to; the frame is
  // valid until publish(). Sets all fields of `frame` except path and remote; `by_reference` says
  // that its payload is at remote_address in the sender's memory.
  Take take(transport::Frame& frame, SlotCopy& copy, Arena& arena, bool& by_reference) noexcept;

  // Is there something to take?
  bool ready() const noexcept {
    const uint64_t label = view_.slots[next_ & mask_].label.load(std::memory_order_relaxed);
    return SlotLabel::of(label).sequence == static_cast<uint32_t>(next_ + 1);
  }
  // Gives back all slots taken so far.
  void publish() noexcept { view_.control->consumed.store(next_, std::memory_order_release); }
  uint64_t next() const noexcept { return next_; }

  RingControl& control() noexcept { return *view_.control; }

 private:
  Take take_long(transport::Frame& frame, const SlotCopy& copy, SlotLabel label, Arena& arena,
                 bool& by_reference) noexcept;
  Take take_data(transport::Frame& frame, const SlotCopy& copy, SlotLabel label,
                 Arena& arena) noexcept;
  Take take_reference(transport::Frame& frame, const SlotCopy& copy, SlotLabel label,
                      Arena& arena) noexcept;
  bool lies_inside(const DataPlace& place) const noexcept;
  void copy_out(transport::Frame& frame, const DataPlace& place, Arena& arena) const noexcept;

  RingView view_;
  uint64_t mask_;
  uint64_t next_ = 0;
  uint64_t data_size_;
};

inline RingConsumer::Take RingConsumer::take(transport::Frame& frame, SlotCopy& copy, Arena& arena,
                                             bool& by_reference) noexcept {
  const Slot& slot = view_.slots[next_ & mask_];
  const SlotLabel label = SlotLabel::of(slot.label.load(std::memory_order_acquire));
  if (label.sequence != static_cast<uint32_t>(next_ + 1)) return Take::empty;
  // From here on only the copies count: the sender may go on writing. The fence keeps the compiler
  // from reading the shared line again.
  std::memcpy(copy.body, slot.body, sizeof copy.body);
  std::atomic_signal_fence(std::memory_order_seq_cst);

  // Field by field: gcc 12 builds a whole Frame{} on the stack and reloads it wider than it stored
  // it, which costs more than all else here.
  static_assert(sizeof(transport::Frame) == 80, "a new field: set it here");
  frame.bytes = copy.body;
  frame.length = label.head_length;
  frame.ip_id = 0;
  frame.ip_id_known = true;
  frame.ecn = label.ecn & 3;
  frame.cookie = 0;
  frame.timestamp = Instant::never();
  frame.more = nullptr;
  frame.more_length = 0;
  frame.remote = nullptr;
  frame.remote_address = 0;
  frame.remote_length = 0;
  by_reference = false;
  if (label.kind != SlotKind::inline_frame || label.head_length > sizeof copy.body)
    return take_long(frame, copy, label, arena, by_reference);
  ++next_;
  return Take::frame;
}

}  // namespace weft::port::shm
