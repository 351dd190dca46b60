// SPDX-License-Identifier: BSD-3-Clause
// The rings of posted requests of a queue pair. Entries are copies of the posted requests; all
// memory is allocated at creation. PSNs are wide (64 bits, of which packets carry the low 24): the
// requester assigns them at post, so that they compare without wrapping.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/check.hpp"
#include "weft/wr.hpp"

namespace weft::transport {

// SEND and WRITE in all variants: answered by an acknowledgement, not by a response.
constexpr bool is_message(Opcode opcode) noexcept { return opcode <= Opcode::write_with_imm; }

// An entry of a send queue.
struct SendEntry {
  uint64_t id = 0;
  uint64_t remote_address = 0;
  uint64_t first_psn = 0;  // wide
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  Flush flush;
  uint32_t packets = 1;  // PSNs that it takes: for a READ its responses, for local operations none
  uint32_t length = 0;   // bytes
  uint32_t rkey = 0;
  uint32_t imm_or_key = 0;
  uint32_t srq = 0;  // XRC
  uint32_t ssn = 0;  // send sequence number of its first message, for credits (IBTA 9.7.7.2.5)
  Opcode opcode = Opcode::send;
  uint8_t sge_count = 0;
  bool signaled = false;
  bool fence = false;
  bool solicited = false;
  bool is_inline = false;
  bool failed = false;  // a local error: completes with it when it is the oldest entry
  bool done = false;    // a local operation was executed: not again after a rewind

  uint64_t end_psn() const { return first_psn + packets; }
  bool message() const { return is_message(opcode); }
  bool needs_response() const { return !message() && !local(); }
  // ATOMIC WRITE and FLUSH: answered by a READ response without payload.
  bool effect() const { return opcode == Opcode::atomic_write || opcode == Opcode::flush; }
  bool local() const { return is_local(opcode); }
  bool atomic() const { return opcode == Opcode::compare_swap || opcode == Opcode::fetch_add; }
  bool consumes_receive() const {
    return opcode == Opcode::send || opcode == Opcode::send_with_imm ||
           opcode == Opcode::send_with_invalidate || opcode == Opcode::write_with_imm;
  }
};

// An entry of a receive queue.
struct RecvEntry {
  uint64_t id = 0;
  uint32_t length = 0;  // sum of the entries
  uint32_t sge_count = 0;
};

// A ring of entries, each with `max_sge` scatter/gather entries and `max_inline` bytes of inline
// data. Indices are not wrapped; entry i is in slot i & mask. Under the driver's lock.
template <class Entry>
class WorkRing {
 public:
  void create(uint32_t max_entries, uint32_t max_sge, uint32_t max_inline) {
    WEFT_DCHECK(max_entries <= 1u << 31);  // 0: always full
    uint32_t slots = 1;
    while (slots < max_entries) slots *= 2;
    capacity_ = max_entries;
    mask_ = slots - 1;
    max_sge_ = max_sge;
    inline_stride_ = (max_inline + 7) & ~7u;
    entries_.reset(new Entry[slots]);
    sges_.reset(new Sge[static_cast<size_t>(slots) * max_sge]);
    if (inline_stride_ != 0) inline_.reset(new std::byte[size_t{slots} * inline_stride_]);
  }

  uint32_t head() const { return head_; }  // oldest entry not completed
  uint32_t tail() const { return tail_; }  // next entry to be posted
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ >= capacity_; }
  uint32_t size() const { return tail_ - head_; }
  uint32_t capacity() const { return capacity_; }
  uint32_t slots() const { return mask_ + 1; }
  uint32_t slot(uint32_t index) const { return index & mask_; }
  uint32_t max_sge() const { return max_sge_; }

  // `index`: head() to tail().
  Entry& operator[](uint32_t index) {
    WEFT_DCHECK(index - head_ <= tail_ - head_);
    return entries_[index & mask_];
  }
  const Entry& operator[](uint32_t index) const {
    WEFT_DCHECK(index - head_ <= tail_ - head_);
    return entries_[index & mask_];
  }
  Sge* sges(uint32_t index) {
    WEFT_DCHECK(index - head_ <= tail_ - head_);
    return &sges_[size_t{index & mask_} * max_sge_];
  }
  // Without room for inline data, of zero bytes only.
  std::byte* inline_data(uint32_t index) {
    WEFT_DCHECK(index - head_ <= tail_ - head_);
    return inline_.get() + size_t{index & mask_} * inline_stride_;
  }

  Entry& tail_entry() { return (*this)[tail_]; }
  void push() {
    WEFT_DCHECK(!full());
    ++tail_;
  }
  void pop() {
    WEFT_DCHECK(!empty());
    ++head_;
  }
  void clear() { head_ = tail_; }

  // Asserts that the occupancy fits the ring.
  void check_invariants() const {
    if constexpr (!base::kChecksInvariants) return;
    WEFT_DCHECK((slots() & mask_) == 0 && capacity_ <= slots());
    WEFT_DCHECK(size() <= capacity_);
  }

 private:
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<Sge[]> sges_;
  std::unique_ptr<std::byte[]> inline_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t mask_ = 0;
  uint32_t capacity_ = 0;
  uint32_t max_sge_ = 0;
  uint32_t inline_stride_ = 0;
};

}  // namespace weft::transport
