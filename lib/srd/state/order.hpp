// SPDX-License-Identifier: BSD-3-Clause
// Ordered SENDs: those of one stream have numbers of their own, and their receives complete in that
// order, though packets are placed as they come. Sender and receiver keep a window of kOrderWindow
// messages: the sender starts none beyond it, so the receiver never holds more completions back.
#pragma once

#include <bit>
#include <cstdint>

#include "weft/wr.hpp"

namespace weft::srd {

inline constexpr uint32_t kOrderWindow = 64;

// A set of the numbers from `next` on, of which those at its beginning leave.
class OrderSet {
 public:
  uint32_t next() const noexcept { return next_; }
  bool within(uint32_t number) const noexcept { return number - next_ < kOrderWindow; }
  bool has(uint32_t number) const noexcept { return (bits_ >> (number - next_) & 1) != 0; }
  void add(uint32_t number) noexcept { bits_ |= uint64_t{1} << (number - next_); }
  void remove(uint32_t number) noexcept { bits_ &= ~(uint64_t{1} << (number - next_)); }
  // How many before `number` are not in the set.
  uint32_t missing_before(uint32_t number) const noexcept {
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

// What the receiver of a stream with ordered SENDs keeps.
struct OrderedReceives {
  struct Held {
    Completion completion;
    bool solicited = false;
    bool none = false;  // the message has failed, or its queue pair is gone
  };
  Held& held(uint32_t number) noexcept { return ring[number % kOrderWindow]; }

  OrderSet bound;  // have a receive, or need none
  OrderSet done;   // wait only for those before them
  Held ring[kOrderWindow];
};

}  // namespace weft::srd
