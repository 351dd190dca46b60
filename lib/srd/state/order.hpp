// SPDX-License-Identifier: BSD-3-Clause
// Ordered SENDs: those of one stream are numbered, and their receives complete in the order of the
// numbers, though packets are placed as they arrive. Sender and receiver keep a window of
// kOrderWindow messages: the sender starts none beyond it, so the receiver never holds more
// completions back.
#pragma once

#include <bit>
#include <cstdint>

#include "lib/base/check.hpp"
#include "weft/wr.hpp"

namespace weft::srd {

inline constexpr uint32_t kOrderWindow = 64;

// A set of numbers in [next, next + kOrderWindow), from which the lowest can leave.
class OrderSet {
 public:
  uint32_t next() const noexcept { return next_; }
  bool within(uint32_t number) const noexcept { return number - next_ < kOrderWindow; }
  // `number` is within the window, here and below.
  bool has(uint32_t number) const noexcept {
    WEFT_DCHECK(within(number));
    return (bits_ >> (number - next_) & 1) != 0;
  }
  void add(uint32_t number) noexcept {
    WEFT_DCHECK(within(number));
    bits_ |= uint64_t{1} << (number - next_);
  }
  void remove(uint32_t number) noexcept {
    WEFT_DCHECK(within(number));
    bits_ &= ~(uint64_t{1} << (number - next_));
  }
  // Every member of `other`, which begins at the same number, is a member of this.
  bool includes(const OrderSet& other) const noexcept {
    return next_ == other.next_ && (other.bits_ & ~bits_) == 0;
  }
  bool empty() const noexcept { return bits_ == 0; }
  // How many before `number` are not in the set.
  uint32_t missing_before(uint32_t number) const noexcept {
    WEFT_DCHECK(within(number));
    const uint32_t ahead = number - next_;
    const uint64_t before = (uint64_t{1} << ahead) - 1;
    return ahead - static_cast<uint32_t>(std::popcount(bits_ & before));
  }
  bool first_is_in() const noexcept { return (bits_ & 1) != 0; }
  void advance() noexcept {
    ++next_;
    bits_ >>= 1;
  }

 private:
  uint32_t next_ = 0;
  uint64_t bits_ = 0;
};

// Receiver of a stream with ordered SENDs.
struct OrderedReceives {
  struct Held {
    Completion completion;
    bool solicited = false;
    bool none = false;  // the message was aborted, or its queue pair was reset or destroyed
  };
  Held& held(uint32_t number) noexcept { return ring[number % kOrderWindow]; }

  OrderSet bound;  // have taken a receive, or need none
  OrderSet done;   // complete, but for lower numbers that are not
  Held ring[kOrderWindow];
};

}  // namespace weft::srd
