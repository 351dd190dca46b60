// SPDX-License-Identifier: BSD-3-Clause
// Packets in flight under a controller: one record per packet, with when it left and how many bytes
// had left by then. An acknowledgement covers all packets before a PSN. When there are more packets
// than records, the newest record covers several.
//
// PSNs are wide here: a 24-bit one means the wide PSN nearest to the newest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/host_queue.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce {

class Flight {
 public:
  struct Record {
    uint64_t end = 0;   // PSN behind the packet
    uint64_t sent = 0;  // payload bytes since the start, this packet included
    Instant at;
    bool again = false;    // a retransmission: its round trip is ambiguous (RFC 6298)
    HostQueue::Found own;  // the queue before our own port
  };

  bool empty() const noexcept { return head_ == tail_; }
  uint64_t sent() const noexcept { return sent_; }    // goes back at a rewind
  uint64_t acked() const noexcept { return acked_; }  // at the last record that was acknowledged
  const Record& oldest() const noexcept {
    WEFT_DCHECK(!empty());
    return records_[head_ % kRecords];
  }

  void add(uint64_t end, uint32_t payload, Instant at, bool again,
           const HostQueue::Found& own) noexcept {
    WEFT_DCHECK(empty() || record(tail_ - 1).end <= end);
    sent_ += payload;
    newest_ = end;
    furthest_ = std::max(furthest_, end);
    if (tail_ - head_ == kRecords) --tail_;
    record(tail_++) = {end, sent_, at, again, own};
    WEFT_DCHECK(tail_ - head_ <= kRecords && acked_ <= sent_);
  }

  // Everything before PSN `end` arrived: the newest record of that, or null if nothing is newly
  // acknowledged. `newly`: bytes.
  const Record* acknowledge(uint64_t end, uint32_t* newly) noexcept {
    const Record* newest = nullptr;
    for (; head_ != tail_ && record(head_).end <= end; ++head_) newest = &record(head_);
    if (newest == nullptr || newest->sent <= acked_) return nullptr;
    *newly = static_cast<uint32_t>(newest->sent - acked_);
    acked_ = newest->sent;
    WEFT_DCHECK(acked_ <= sent_);
    return newest;
  }

  // Everything from PSN `psn` on will be sent again.
  void rewind(uint64_t psn) noexcept {
    while (tail_ != head_ && record(tail_ - 1).end > psn) --tail_;
    sent_ = tail_ != head_ ? record(tail_ - 1).sent : acked_;
    WEFT_DCHECK(acked_ <= sent_);
  }

  // True if the packets before PSN `end` were sent before.
  bool repeats(uint64_t end) const noexcept { return end <= furthest_; }
  uint64_t widen(Psn psn) const noexcept {
    const int32_t distance = psn - Psn{static_cast<uint32_t>(newest_) & Psn::kMask};
    return newest_ + static_cast<uint64_t>(static_cast<int64_t>(distance));
  }

 private:
  static constexpr uint32_t kRecords = 256;  // power of two
  Record& record(uint32_t index) noexcept { return records_[index % kRecords]; }

  uint64_t sent_ = 0;
  uint64_t acked_ = 0;
  uint64_t newest_ = uint64_t{1} << 32;  // end of the packet that left last
  uint64_t furthest_ = 0;                // of all that ever left
  uint32_t head_ = 0, tail_ = 0;
  std::array<Record, kRecords> records_;
};

}  // namespace weft::roce
