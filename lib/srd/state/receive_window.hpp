// SPDX-License-Identifier: BSD-3-Clause
// Which packets of a peer's stream have been executed: everything below `next`, and a bitmap of the
// kWindow packets from there on. A sequence number is 64 bits wide and never used twice in a
// stream, so a packet that the network delayed for any time is a duplicate, nothing else.
#pragma once

#include <bit>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/srd/state/flight.hpp"

namespace weft::srd {

class ReceiveWindow {
 public:
  static constexpr uint32_t kWords = kWindow / 64;
  ReceiveWindow() = default;
  explicit ReceiveWindow(uint64_t first) : next_(first), end_(first) {}
  enum class Place : uint8_t { fresh, duplicate, beyond };

  uint64_t next() const { return next_; }

  //= threat:A10 threat:A26
  Place place_of(uint64_t sequence) const {
    if (sequence < next_) return Place::duplicate;
    if (sequence - next_ >= kWindow) return Place::beyond;
    return bit(sequence) ? Place::duplicate : Place::fresh;
  }

  // A refusal is final: another copy of the packet may not be executed later, because the sender
  // relies on the refusal. Only a fill may take its number.
  void refuse(uint64_t sequence) {
    WEFT_DCHECK(place_of(sequence) == Place::fresh);
    refused_[index(sequence)] |= mask(sequence);
  }
  bool refused(uint64_t sequence) const {
    return (refused_[index(sequence)] & mask(sequence)) != 0;
  }

  // A fresh packet was executed.
  void accept(uint64_t sequence) {
    WEFT_DCHECK(place_of(sequence) == Place::fresh);
    refused_[index(sequence)] &= ~mask(sequence);
    words_[index(sequence)] |= mask(sequence);
    if (sequence >= end_) end_ = sequence + 1;
    if (sequence != next_) return;
    do {
      words_[index(next_)] &= ~mask(next_);
      ++next_;
    } while (bit(next_));
    if (end_ < next_) end_ = next_;
    WEFT_DCHECK(next_ <= end_ && end_ - next_ <= kWindow && !bit(next_));
  }

  // Words of the bitmap in an acknowledgement: bit i of word w says whether packet
  // next + 64 w + i was executed.
  uint32_t words() const { return static_cast<uint32_t>((end_ - next_ + 63) / 64); }
  uint64_t word(uint32_t w) const {
    WEFT_DCHECK(w < words());
    const uint64_t first = next_ + uint64_t{64} * w;
    const uint32_t shift = static_cast<uint32_t>(first & 63);
    const uint64_t low = words_[index(first)] >> shift;
    if (shift == 0) return low;
    // The ring's last word may wrap into packets before `next`: those bits are clear.
    return low | words_[index(first + 64)] << (64 - shift);
  }
  bool holes() const { return end_ != next_; }
  uint64_t end() const { return end_; }
  // Packets beyond `next` that were executed.
  uint32_t beyond_gap() const {
    uint32_t count = 0;
    for (const uint64_t bits : words_) count += static_cast<uint32_t>(std::popcount(bits));
    return count;
  }

 private:
  static uint32_t index(uint64_t sequence) { return static_cast<uint32_t>(sequence / 64) % kWords; }
  static uint64_t mask(uint64_t sequence) { return uint64_t{1} << (sequence & 63); }
  bool bit(uint64_t sequence) const { return (words_[index(sequence)] & mask(sequence)) != 0; }

  uint64_t next_ = 0;
  uint64_t end_ = 0;  // one past the highest accepted
  uint64_t words_[kWords] = {};
  uint64_t refused_[kWords] = {};  // fresh numbers whose packet was refused
};

}  // namespace weft::srd
