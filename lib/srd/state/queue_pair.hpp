// SPDX-License-Identifier: BSD-3-Clause
// An SRD queue pair: slots of its send and receive queue, completion queues, and access rights. It
// has no peer and no sequence numbers; those belong to peers (peer.hpp). Work completes in any
// order, so slots come from a free list, not from a ring.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/base/line.hpp"
#include "lib/srd/state/rnr_queue.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/completion_queue.hpp"
#include "weft/qp.hpp"

namespace weft::srd {

// Scatter/gather entries and inline bytes of `count` requests.
class Slots {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  void create(uint32_t count, uint32_t max_sge, uint32_t max_inline) {
    count_ = free_count_ = count;
    max_sge_ = max_sge;
    inline_stride_ = (max_inline + 7) & ~7u;
    sges_.reset(new Sge[size_t{count} * max_sge]);
    free_.reset(new uint32_t[count]);
    if (inline_stride_ != 0) inline_.reset(new std::byte[size_t{count} * inline_stride_]);
    for (uint32_t i = 0; i < count; ++i) free_[i] = count - 1 - i;
  }
  bool full() const { return free_count_ == 0; }
  uint32_t used() const { return count_ - free_count_; }
  uint32_t take() {
    WEFT_DCHECK(!full());
    return free_[--free_count_];
  }
  void give(uint32_t slot) {
    WEFT_DCHECK(slot < count_ && free_count_ < count_);
    free_[free_count_++] = slot;
  }
  uint32_t count() const { return count_; }
  uint32_t max_sge() const { return max_sge_; }
  Sge* sges(uint32_t slot) {
    WEFT_DCHECK(slot < count_);
    return &sges_[size_t{slot} * max_sge_];
  }
  std::byte* inline_data(uint32_t slot) {
    WEFT_DCHECK(slot < count_ && inline_stride_ != 0);
    return &inline_[size_t{slot} * inline_stride_];
  }

 private:
  std::unique_ptr<Sge[]> sges_;
  std::unique_ptr<std::byte[]> inline_;
  std::unique_ptr<uint32_t[]> free_;
  uint32_t count_ = 0, free_count_ = 0, max_sge_ = 0, inline_stride_ = 0;
};

struct Receive {
  uint64_t id = 0;
  uint32_t length = 0;
  uint32_t sge_count = 0;
};

// Posted receives, first in first out; one that a message returns is the first again.
class ReceiveQueue {
 public:
  void create(uint32_t count, uint32_t max_sge) {
    slots.create(count, max_sge, 0);  // a count of 0: always full
    receives_.reset(new Receive[count]);
    line_.reset(new uint32_t[count]);
  }
  bool full() const { return slots.full(); }
  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  Receive& operator[](uint32_t slot) { return receives_[slot]; }
  uint32_t front() const {
    WEFT_DCHECK(!empty());
    return line_[head_];
  }
  void push(uint32_t slot) {
    WEFT_DCHECK(slot < slots.count() && size_ < slots.used());
    line_[(head_ + size_) % slots.count()] = slot;
    ++size_;
  }
  uint32_t pop() {
    WEFT_DCHECK(!empty());
    const uint32_t slot = line_[head_];
    head_ = (head_ + 1) % slots.count();
    --size_;
    return slot;
  }
  void push_front(uint32_t slot) {
    WEFT_DCHECK(slot < slots.count() && size_ < slots.used());
    head_ = (head_ + slots.count() - 1) % slots.count();
    line_[head_] = slot;
    ++size_;
  }

  Slots slots;

 private:
  std::unique_ptr<Receive[]> receives_;
  std::unique_ptr<uint32_t[]> line_;
  uint32_t head_ = 0, size_ = 0;
};

struct QueuePair {
  QpNum number;
  QpState state = QpState::reset;
  bool signal_all = false;
  Access access = Access::none;
  uint32_t domain = 0;
  uint32_t queue_key = 0;  // Q_Key that SENDs, and WRITEs with immediate data, must name
  uint32_t max_inline = 0;
  uint8_t rnr_retry = 7;  // 7 = no limit
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  Slots sends;
  ReceiveQueue receives;
  std::unique_ptr<RnrQueue> rnr_queue;  // null: no peer has waited for a receive yet
  base::LineLink<QueuePair> ready_link, reserving_link;  // in RnrSchedule
  QueuePairAttributes attributes;                        // as set by modify()

  bool can_receive() const {
    return state == QpState::rtr || state == QpState::rts || state == QpState::sqd;
  }
};

}  // namespace weft::srd
