// SPDX-License-Identifier: BSD-3-Clause
// The sequence numbers of a link, one ring for each direction. A sender may have as many pieces
// in flight as the ring has slots; a slot is free when its send has completed and the peer has
// returned its credit. `ordered` (RC): completions and arrivals come in the order of posting.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/collective/run/link_buffers.hpp"
#include "lib/collective/run/sequence_window.hpp"

namespace weft::collective {

inline constexpr uint32_t kNoStep = UINT32_MAX;

class SendRing {
 public:
  SendRing(uint32_t slots, bool ordered)
      : slots_(slots), ordered_(ordered), acknowledged_(slots), steps_(slots, kNoStep) {
    WEFT_DCHECK(std::has_single_bit(slots));
  }

  bool can_send() const {
    return posted_ - acknowledged_.count() < slots_ && posted_ - credit_ < slots_;
  }
  uint64_t posted() const { return posted_; }  // pieces, since the link exists
  uint64_t credit() const { return credit_; }  // pieces that the peer has consumed
  uint32_t slot_of(uint64_t piece) const { return static_cast<uint32_t>(piece) & (slots_ - 1); }
  uint32_t next_slot() const { return slot_of(posted_); }
  // The piece in flight in this slot.
  uint64_t piece_in(uint32_t slot) const {
    const uint64_t first = acknowledged_.count();
    return first + slot_of(slot - first);
  }
  // The immediate data of a piece with a header: over SRD they number the piece.
  uint32_t immediate_of(uint64_t piece) const {
    return ordered_ ? 0 : static_cast<uint32_t>(piece);
  }

  // The next piece is posted. `step`: its payload is read from the caller's memory until then.
  void on_posted(uint32_t step) {
    WEFT_DCHECK(can_send() && steps_[next_slot()] == kNoStep);
    steps_[next_slot()] = step;
    by_reference_ += step != kNoStep;
    ++posted_;
  }
  // kNoStep: the payload was copied.
  uint32_t step_in(uint32_t slot) const {
    WEFT_DCHECK(slot < slots_);
    return steps_[slot];
  }
  // The transport has read the payload in this slot.
  void release_payload(uint32_t slot) {
    WEFT_DCHECK(slot < slots_ && (steps_[slot] == kNoStep || by_reference_ > 0));
    by_reference_ -= steps_[slot] != kNoStep;
    steps_[slot] = kNoStep;
  }
  // The send of the piece in this slot has completed; where order is kept, so have those before it.
  void on_sent(uint32_t slot) {
    WEFT_DCHECK(piece_in(slot) < posted_);
    if (ordered_)
      acknowledged_.advance_to(piece_in(slot) + 1);
    else
      acknowledged_.add(piece_in(slot));
  }
  // Where order is kept: a request has completed that was posted when the low bits of posted()
  // under `mask` were `low`.
  void on_sent_before(uint32_t low, uint32_t mask) {
    const uint64_t first = acknowledged_.count();
    if (ordered_) acknowledged_.advance_to(first + ((low - first) & mask));
    WEFT_DCHECK(acknowledged_.count() <= posted_);
  }
  // The peer says that it has consumed so many; values that cannot be are ignored.
  void update_credit(uint64_t consumed) {
    if (consumed > credit_ && consumed <= posted_) credit_ = consumed;
    WEFT_DCHECK(credit_ <= posted_);
  }

  // Whether the next piece needs a completion though its payload is copied. Where order is kept a
  // completion covers the pieces before it, so each quarter of the ring has one.
  bool needs_signal() const {
    constexpr uint32_t kSignalsPerRing = 4;
    const uint32_t quarter = std::max(slots_ / kSignalsPerRing, 1U);  // a power of two
    return !ordered_ || ((posted_ + 1) & (quarter - 1)) == 0;
  }
  bool reads_caller_memory() const { return by_reference_ > 0; }
  bool all_sent() const { return posted_ == acknowledged_.count(); }

  void check_invariants() const {
    WEFT_DCHECK(acknowledged_.count() <= posted_ && posted_ - acknowledged_.count() <= slots_);
    WEFT_DCHECK(credit_ <= posted_ && posted_ - credit_ <= slots_);
    const auto copied = std::count(steps_.begin(), steps_.end(), kNoStep);
    WEFT_DCHECK(slots_ - static_cast<uint32_t>(copied) == by_reference_);
    WEFT_DCHECK(by_reference_ <= posted_ - acknowledged_.count());
    acknowledged_.check_invariants();
  }

 private:
  uint32_t slots_;
  bool ordered_;
  uint64_t posted_ = 0, credit_ = 0;
  SequenceWindow acknowledged_;  // pieces whose send has completed
  std::vector<uint32_t> steps_;  // of the pieces in flight, by slot
  uint32_t by_reference_ = 0;    // of steps_, those that are set
};

class ReceiveRing {
 public:
  ReceiveRing(uint32_t slots, bool ordered)
      : slots_(slots), ordered_(ordered), headers_(slots), arrived_(slots) {}

  uint32_t slots() const { return slots_; }
  uint64_t arrived() const { return arrived_.count(); }  // without a gap
  uint64_t consumed() const { return consumed_; }
  uint64_t unconsumed() const { return arrived_.count() - consumed_; }
  uint32_t slot_of(uint64_t piece) const { return static_cast<uint32_t>(piece) & (slots_ - 1); }
  // The oldest piece that is not consumed, or null.
  const PieceHeader* head() const {
    return arrived_.count() == consumed_ ? nullptr : &headers_[slot_of(consumed_)];
  }
  uint32_t head_slot() const { return slot_of(consumed_); }

  // A piece of `bytes` has arrived; `credit` is what this side's sender knows. Null: a duplicate,
  // or beyond the window.
  const PieceHeader* on_piece(uint32_t immediate, uint32_t bytes, uint64_t credit,
                              const LinkBuffers& buffers) {
    const uint64_t piece = ordered_ ? arrived_.count() : arrived_.number(immediate);
    if (!arrived_.add(piece)) return nullptr;
    PieceHeader& header = headers_[slot_of(piece)];
    if (ordered_ && (immediate & kCompressed) != 0) {
      header = headers_[slot_of(piece - 1)];
      expand(header, immediate, bytes, credit);
    } else {
      std::memcpy(&header, buffers.landing(slot_of(piece)), sizeof header);
    }
    return &header;
  }
  void consume() {
    WEFT_DCHECK(head() != nullptr);
    ++consumed_;
  }

  // consumed() was sent to the peer.
  void on_credit_sent() {
    WEFT_DCHECK(credit_sent_ <= consumed_);
    credit_sent_ = consumed_;
  }
  // A message for credit is worthwhile once half of the ring is not returned.
  bool credit_due() const { return consumed_ - credit_sent_ >= slots_ / 2; }

  void check_invariants() const {
    WEFT_DCHECK(credit_sent_ <= consumed_ && consumed_ <= arrived_.count());
    WEFT_DCHECK(headers_.size() == slots_);
    arrived_.check_invariants();
  }

 private:
  uint32_t slots_;
  bool ordered_;
  std::vector<PieceHeader> headers_;  // by slot: copies, which the peer cannot change
  SequenceWindow arrived_;
  uint64_t consumed_ = 0, credit_sent_ = 0;
};

}  // namespace weft::collective
