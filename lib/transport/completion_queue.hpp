// SPDX-License-Identifier: BSD-3-Clause
// A completion queue: a ring with one producer (the engine, under the driver's lock) and one
// consumer at a time (the poller, under the consumer lock). They share two indices, each on its own
// cache line with a cached copy of the other. Times of completions are in a second ring, if
// enabled.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/check.hpp"
#include "weft/cq.hpp"
#include "weft/wr.hpp"

namespace weft::transport {

inline constexpr size_t kCacheLine = 64;

class CompletionQueue {
 public:
  explicit CompletionQueue(uint32_t capacity, bool timestamps = false) {
    WEFT_DCHECK(capacity >= 1);
    const uint32_t size = std::bit_ceil(capacity);
    mask_ = size - 1;
    ring_.reset(new Completion[size]);
    if (timestamps) times_.reset(new Instant[size]);
    capacity_.store(capacity, std::memory_order_relaxed);
  }

  // The caller holds the locks of producer and consumer. False, and nothing has changed: the queue
  // holds more than `capacity` completions.
  bool resize(uint32_t capacity) {
    WEFT_DCHECK(capacity >= 1);
    const uint32_t head = head_.load(std::memory_order_relaxed);
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head > capacity) return false;
    const uint32_t mask = std::bit_ceil(capacity) - 1;
    std::unique_ptr<Completion[]> ring(new Completion[mask + 1]);  // may throw: nothing has changed
    std::unique_ptr<Instant[]> times(times_ != nullptr ? new Instant[mask + 1] : nullptr);
    for (uint32_t i = head; i != tail; ++i) {
      ring[i & mask] = ring_[i & mask_];
      if (times != nullptr) times[i & mask] = times_[i & mask_];
    }
    ring_ = std::move(ring);
    times_ = std::move(times);
    mask_ = mask;
    capacity_.store(capacity, std::memory_order_relaxed);
    check_invariants();
    return true;
  }

  // Producer. False: the queue is full, and the caller must close() it. //= threat:A18
  bool push(const Completion& completion, bool solicited, Instant now) noexcept {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - cached_head_ >= capacity()) {
      cached_head_ = head_.load(std::memory_order_acquire);
      if (tail - cached_head_ >= capacity()) return false;
    }
    WEFT_DCHECK(!overrun_ && tail - cached_head_ <= mask_);
    ring_[tail & mask_] = completion;
    if (times_ != nullptr) times_[tail & mask_] = now;
    tail_.store(tail + 1, std::memory_order_release);
    //= roce:C-OPS-90
    if (armed_ && (solicited || notify_ == Notify::all || completion.status != Status::success))
      note_wanted(now);
    return true;
  }

  // Consumer. `times`: nullptr, or as long as `out`.
  size_t pop(std::span<Completion> out, Instant* times = nullptr) noexcept {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (cached_tail_ - head < out.size()) cached_tail_ = tail_.load(std::memory_order_acquire);
    const uint32_t have = cached_tail_ - head;
    WEFT_DCHECK(have <= mask_ + 1);
    const uint32_t n = have < out.size() ? have : static_cast<uint32_t>(out.size());
    for (uint32_t i = 0; i < n; ++i) out[i] = ring_[(head + i) & mask_];
    for (uint32_t i = 0; times != nullptr && i < n; ++i)
      times[i] = times_ != nullptr ? times_[(head + i) & mask_] : Instant::never();
    if (n != 0) head_.store(head + n, std::memory_order_release);
    return n;
  }
  bool empty() const noexcept {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

  // The rest is called by the producer, except where noted.
  void arm(Notify notify) noexcept {
    armed_ = true;  // arming again does not restart the moderation period
    notify_ = notify;
  }
  bool armed() const noexcept { return armed_; }
  bool has_fired() const noexcept { return fired_; }
  // When fire() must be called; never(): no event is held back.
  Instant due() const noexcept { return due_; }
  void fire() noexcept {
    armed_ = false;
    fired_ = true;
    held_ = 0;
    due_ = Instant::never();
  }
  // Sets the moderation; fires if an event is held back.
  void moderate(uint16_t count, Duration period) noexcept {
    moderated_ = count;
    period_ = period;
    if (held_ != 0) fire();
  }
  bool keeps_times() const noexcept { return times_ != nullptr; }
  bool moderated() const noexcept { return moderated_ != 0; }
  bool take_fired() noexcept {
    const bool fired = fired_;
    fired_ = false;
    return fired;
  }
  // Marks the queue as overrun, permanently.
  void close() noexcept { overrun_ = true; }
  bool overrun() const noexcept { return overrun_; }
  // In asynchronous events; set before the queue is used.
  void set_number(uint32_t number) noexcept { number_ = number; }
  uint32_t number() const noexcept { return number_; }
  // From any thread.
  uint32_t capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }

  // Asserts the relations between the members; under the engine's lock.
  void check_invariants() const noexcept {
    if constexpr (!base::kChecksInvariants) return;
    const uint32_t used = tail_.load(std::memory_order_relaxed) - head_.load();
    WEFT_DCHECK(std::has_single_bit(mask_ + 1) && capacity() >= 1 && capacity() <= mask_ + 1);
    WEFT_DCHECK(used <= capacity());
    WEFT_DCHECK((held_ == 0) == due_.is_never());
    WEFT_DCHECK(held_ == 0 || (armed_ && held_ < moderated_));
  }

 private:
  // A completion that wakes an armed queue: at once, or with others if it is moderated.
  void note_wanted(Instant now) noexcept {
    if (moderated_ <= 1 || held_ + 1 >= moderated_) return fire();
    if (held_++ == 0) due_ = now + period_;
    check_invariants();
  }

  std::atomic<uint32_t> capacity_{0};
  uint32_t mask_ = 0;
  uint32_t number_ = 0;
  std::unique_ptr<Completion[]> ring_;
  std::unique_ptr<Instant[]> times_;  // of the completions in the ring; null: no timestamps

  alignas(kCacheLine) std::atomic<uint32_t> tail_{0};  // producer
  uint32_t cached_head_ = 0;
  bool armed_ = false;
  bool fired_ = false;
  bool overrun_ = false;
  Notify notify_ = Notify::all;
  uint16_t moderated_ = 0;  // CqModeration::count; 0: not moderated
  uint16_t held_ = 0;       // completions since the moderation period began
  Instant due_ = Instant::never();
  Duration period_;

  alignas(kCacheLine) std::atomic<uint32_t> head_{0};  // consumer
  uint32_t cached_tail_ = 0;
};

}  // namespace weft::transport
