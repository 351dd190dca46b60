// SPDX-License-Identifier: BSD-3-Clause
// What a requester knows about its outstanding PSNs behind the oldest one (the scoreboard of RFC
// 6675): which the peer holds, which are lost and have to be sent again, which were. The peer tells
// by selective acknowledgements (lib/wire/SACK.md).
//
// PSNs are wide. Marks exist for a window of PSNs from the oldest outstanding one on, of which the
// caller takes them off as they are acknowledged.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "lib/base/check.hpp"
#include "weft/units.hpp"

namespace weft::roce {

class Scoreboard {
 public:
  // `window`: PSNs that may have marks; rounded up to a power of two.
  explicit Scoreboard(uint32_t window)
      : mask_(std::bit_ceil(window) - 1), marks_(new Mark[mask_ + 1]) {}

  // When the peer answered last: a hole that it knows needs no probe.
  Instant answered_at;

  uint32_t window() const noexcept { return mask_ + 1; }
  // Nothing is marked.
  bool empty() const noexcept { return marked_ == 0; }
  bool has_missing() const noexcept { return missing_ != 0; }
  bool missing(uint64_t psn) const noexcept { return at(psn).is == Mark::missing; }
  bool held(uint64_t psn) const noexcept { return at(psn).is == Mark::held; }

  // The peer has it. True: that is new.
  bool hold(uint64_t psn) noexcept;
  // It is missing, and what is missing before `lost_end` is lost. True: it has to be sent again,
  // and that is new. If it was sent again, that is lost only if a packet that left later arrived.
  bool miss(uint64_t psn, uint64_t lost_end) noexcept;
  // The first that has to be sent again; there is one. `una`: the oldest outstanding PSN.
  uint64_t first_missing(uint64_t una) noexcept;
  // PSNs [from, end) were sent again, before `next`, which no packet had so far.
  void on_repeated(uint64_t from, uint64_t end, uint64_t next) noexcept;
  // PSNs [from, end) are acknowledged, or will all be sent again: forgets their marks. Returns how
  // many were held.
  uint32_t take(uint64_t from, uint64_t end) noexcept;

 private:
  struct Mark {
    enum Is : uint8_t { nothing, held, missing, repeated };
    Is is = nothing;
    uint32_t next = 0;  // repeated: the low bits of on_repeated()'s
  };
  Mark& at(uint64_t psn) noexcept { return marks_[psn & mask_]; }
  const Mark& at(uint64_t psn) const noexcept { return marks_[psn & mask_]; }
  void change(uint64_t psn, Mark::Is to) noexcept;

  uint32_t mask_;
  uint32_t marked_ = 0;        // that are not `nothing`
  uint32_t missing_ = 0;       // that are
  uint64_t missing_from_ = 0;  // none before it is missing
  std::unique_ptr<Mark[]> marks_;
};

}  // namespace weft::roce
