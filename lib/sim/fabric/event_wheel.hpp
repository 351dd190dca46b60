// SPDX-License-Identifier: BSD-3-Clause
// Virtual time for the fabric: a timing wheel with a slot per nanosecond, because most events lie
// one link delay ahead. Push and pop take constant time and touch memory in order. Events beyond
// the wheel (timers, slow links) wait in a heap.
//
// Order: by time, then by the order of pushing. An event in the heap was pushed before any event of
// the same nanosecond in the wheel (it was farther away then), so the heap's come first.
//
// frames/event_queue.hpp is the other queue, and not this one with other events: its callers look
// at next() without taking the event and then schedule earlier ones, and advance time without an
// event; this wheel has moved on to the next event's slot by then.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/packet.hpp"

namespace weft::sim::fabric {

class EventWheel {
 public:
  static constexpr int64_t kSlots = 4096;  // ns that the wheel reaches
  static constexpr int64_t kTick = 1000;   // ps

  explicit EventWheel(ChunkPool& pool) : pool_(pool) {}
  EventWheel(const EventWheel&) = delete;
  EventWheel& operator=(const EventWheel&) = delete;

  int64_t now() const noexcept { return now_; }
  uint64_t pushed() const noexcept { return pushed_; }

  // A place for an event at `at`, not before now(): the caller fills it, its `at` too, before the
  // next call.
  Packet& place(int64_t at) {
    WEFT_DCHECK(at >= now_);
    ++pushed_;
    const int64_t tick = at / kTick;
    const int64_t ahead = tick - tick_;
    if (ahead > 0 && ahead < kSlots) return place_slot(tick);
    return ahead == 0 ? place_current(at) : place_far(at);
  }
  void push(const Packet& packet) { place(packet.at) = packet; }
  // Schedules an event that is no packet.
  void plan(int64_t at, Event event, uint32_t target, uint32_t flow = 0) {
    Packet& packet = place(at);
    packet.at = at;
    packet.target = target;
    packet.ingress = 0;
    packet.flow = flow;
    packet.tag = Packet::Tag{event, false, false, false, false};
  }

  // True if there is an event; then next() is when, and pop() takes it.
  bool ready() { return at_ < current_.size() || advance(); }
  int64_t next() const noexcept { return current_[at_].at; }
  Packet pop() noexcept {
    WEFT_DCHECK(at_ < current_.size() && current_[at_].at >= now_);
    const Packet packet = current_[at_++];
    now_ = packet.at;
    return packet;
  }
  // True if the next event is the first of its nanosecond: the time to look ahead.
  bool turned() const noexcept { return at_ == 0; }
  // Visits the known events of the next nanosecond that has any, so that the caller can prefetch
  // what they touch. Prefetches the slot after that one itself.
  template <class Visit>
  void look_ahead(Visit visit) const {
    const int64_t next = next_slot_tick(tick_);
    if (next == INT64_MAX) return;
    slots_[static_cast<size_t>(next) & (kSlots - 1)].each(visit);
    const int64_t behind = next_slot_tick(next);
    if (behind - tick_ < kSlots) slots_[static_cast<size_t>(behind) & (kSlots - 1)].prefetch();
  }
  template <class Visit>
  void each(Visit visit) const {
    for (size_t i = at_; i < current_.size(); ++i) visit(current_[i]);
    for (const Fifo& slot : slots_) slot.each(visit);
    for (const Far& far : far_) visit(far.packet);
  }

 private:
  struct Far {
    Packet packet;
    uint64_t sequence;
    bool operator<(const Far& o) const noexcept {  // for the heap: the later is the smaller
      return packet.at != o.packet.at ? packet.at > o.packet.at : sequence > o.sequence;
    }
  };
  Packet& place_slot(int64_t tick) {
    const size_t slot = static_cast<size_t>(tick) & (kSlots - 1);
    words_[slot / 64] |= uint64_t{1} << (slot % 64);
    summary_ |= uint64_t{1} << (slot / 64);
    return slots_[slot].place(pool_);
  }
  Packet& place_current(int64_t at);
  Packet& place_far(int64_t at);
  bool advance();
  int64_t next_slot_tick(int64_t tick) const noexcept;

  ChunkPool& pool_;
  std::vector<Packet> current_;  // the events of tick_, sorted; those before at_ have happened
  size_t at_ = 0;
  int64_t now_ = 0;   // ps
  int64_t tick_ = 0;  // ns
  uint64_t pushed_ = 0;
  uint64_t summary_ = 0;                       // a bit per word
  std::array<uint64_t, kSlots / 64> words_{};  // a bit per slot that is not empty
  std::array<Fifo, kSlots> slots_{};
  std::vector<Far> far_;  // a heap
};
static_assert(EventWheel::kSlots / 64 == 64);

}  // namespace weft::sim::fabric
