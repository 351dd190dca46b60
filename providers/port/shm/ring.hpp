// SPDX-License-Identifier: BSD-3-Clause
// One direction between two processes: a ring of 64-byte slots in shared memory, one slot a frame,
// and behind it a ring of bytes for frames that a slot cannot hold.
//
//   inline     the whole frame (<= 56 bytes) is in the slot: one cache line crosses, nothing else
//   split      headers in the slot, payload in the data ring
//   whole      the frame is in the data ring (headers too long for a slot, or not told apart)
//   reference  headers in the slot, payload stays in the sender's memory
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
#include <memory>

#include "lib/engine/frame.hpp"

namespace weft::port::shm {

inline constexpr size_t kCacheLine = 64;
inline constexpr uint32_t kLargestMtu = 1u << 20;
inline constexpr uint32_t kLargestFrame = kLargestMtu + 1024;  // headers and trailer included

enum class SlotKind : uint8_t { inline_frame, split, whole, reference };

struct alignas(kCacheLine) Slot {
  std::atomic<uint32_t> sequence;  // the frame's index + 1; stored last
  uint16_t head_length;            // bytes of the frame in this slot
  uint8_t kind;
  uint8_t ecn;
  std::byte body[56];
};

// What `body` is for frames that do not fit it.
struct DataBody {
  uint32_t offset;  // in the data ring
  uint32_t length;
  std::byte head[48];
};
struct ReferenceBody {
  uint64_t address;
  uint32_t length;
  std::byte head[44];
};
static_assert(sizeof(Slot) == kCacheLine && offsetof(Slot, body) == 8);
static_assert(sizeof(DataBody) == sizeof(Slot::body) &&
              sizeof(ReferenceBody) == sizeof(Slot::body));

// Who owns the memory that a reference names; one word per slot, apart from it because both sides
// change it after the slot is published.
using Claim = std::atomic<uint32_t>;
inline constexpr uint32_t kReady = 1;
inline constexpr uint32_t kClaimed = 2;  // the consumer may be reading it
inline constexpr uint32_t kRevoked = 3;  // the producer took it back

// The first page of the shared memory: a line for each writer and rate of change.
struct RingControl {
  alignas(kCacheLine) std::atomic<uint32_t> producer_waits;   // wake it when slots become free
  alignas(kCacheLine) std::atomic<uint64_t> consumed;         // slots that may be used again
  alignas(kCacheLine) std::atomic<uint32_t> consumer_sleeps;  // wake it when a slot is filled
  std::atomic<uint32_t> refuses_references;                   // pulling failed: copy from now on
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct RingGeometry {
  uint32_t slots = 1024;    // a power of two
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
  Push push(const engine::TxFrame& frame, bool by_reference) noexcept;

  // Learns what was consumed. False: the consumer wrote nonsense.
  bool refresh() noexcept;
  // As many slots as are neither free nor known to be consumed.
  uint64_t outstanding() const noexcept { return produced_ - consumed_; }

  // Takes back references into [base, base + size) that the consumer did not claim yet. Returns the
  // number of slots that must be consumed before no claimed one is left: wait until consumed() >=
  // it.
  uint64_t revoke(const std::byte* base, size_t size) noexcept;
  uint64_t consumed() const noexcept { return consumed_; }

  RingControl& control() noexcept { return *view_.control; }

 private:
  struct DataUse {
    uint64_t index;     // of the slot
    uint64_t data_end;  // the data ring is used up to here
    uint64_t address;   // by reference: what the slot names
    uint32_t length;    // 0 = nothing by reference
  };

  Push push_inline(const engine::TxFrame& frame, Slot& slot) noexcept;
  Push push_data(const engine::TxFrame& frame, Slot& slot, bool by_reference) noexcept;
  bool reserve(uint32_t length, uint64_t& position) noexcept;
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

// Private memory for frames whose headers must be copied out of the ring and do not fit one line.
struct Arena {
  std::byte* at = nullptr;
  size_t left = 0;
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
  Take take(engine::Frame& frame, Slot& copy, Arena& arena, bool& by_reference) noexcept;

  // Is there something to take?
  bool ready() const noexcept {
    return view_.slots[next_ & mask_].sequence.load(std::memory_order_acquire) ==
           static_cast<uint32_t>(next_ + 1);
  }
  // Gives back all slots taken so far.
  void publish() noexcept { view_.control->consumed.store(next_, std::memory_order_release); }
  uint64_t next() const noexcept { return next_; }

  RingControl& control() noexcept { return *view_.control; }

 private:
  Take take_data(engine::Frame& frame, const Slot& copy, Arena& arena) noexcept;
  Take take_reference(engine::Frame& frame, const Slot& copy) noexcept;

  RingView view_;
  uint64_t mask_;
  uint64_t next_ = 0;
  uint64_t data_size_;
};

}  // namespace weft::port::shm
