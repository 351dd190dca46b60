// SPDX-License-Identifier: BSD-3-Clause
// The trace of a rank, always on: a ring of operations, a ring of steps (pieces sent and received),
// and totals since the communicator exists.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/collective/plan/call.hpp"
#include "weft/units.hpp"

namespace weft::collective {

struct Record {
  Call call;
  std::string_view algorithm;  // a name in algorithms()
  Duration predicted;          // zero: no model
  Instant issued, started, ended;
  bool failed = false;
  uint64_t placed = 0;  // pieces that arrived at their final place, without a copy
};

struct StepRecord {
  Instant time;           // of the turn in which it was done
  uint64_t sequence = 0;  // of its call
  uint64_t piece = 0;     // its number on this link and in this direction, since the link exists
  uint32_t peer = 0;
  uint32_t bytes = 0;
  uint8_t traffic_class = 2;
  bool sent = false;  // or received
};

// Steps get the time of the last set_time(): the clock is read once a turn, not once a step.
class StepLog {
 public:
  struct Total {
    uint64_t pieces = 0, bytes = 0;
  };

  void set_time(Instant time) {
    WEFT_DCHECK(time >= time_);
    time_ = time;
  }
  Instant time() const { return time_; }
  void add(const Call& call, uint64_t piece, uint32_t peer, uint64_t bytes, bool sent) {
    ring_[added_++ % kKept] = {
        time_, call.sequence, piece, peer, static_cast<uint32_t>(bytes), call.traffic_class, sent};
    Total& total = totals_[sent];
    ++total.pieces;
    total.bytes += bytes;
  }
  const Total& total(bool sent) const { return totals_[sent]; }
  uint64_t dropped() const { return added_ > kKept ? added_ - kKept : 0; }
  size_t kept() const { return static_cast<size_t>(added_ - dropped()); }
  const StepRecord& operator[](size_t i) const {
    WEFT_DCHECK(i < kept());
    return ring_[(dropped() + i) % kKept];
  }

 private:
  static constexpr size_t kKept = 4096;
  std::vector<StepRecord> ring_{kKept};
  std::array<Total, 2> totals_{};
  uint64_t added_ = 0;
  Instant time_;
};

class Trace {
 public:
  struct Total {
    uint64_t operations = 0, failed = 0, bytes = 0;
    Duration waited, took;  // from issue to start; from start to end
  };

  void add(const Record& record);
  StepLog& steps() { return steps_; }
  const StepLog& steps() const { return steps_; }
  const Total& total(Collective collective) const {
    return totals_[static_cast<size_t>(collective)];
  }
  uint64_t dropped() const { return added_ > ring_.size() ? added_ - ring_.size() : 0; }
  size_t kept() const { return static_cast<size_t>(added_ - dropped()); }
  const Record& operator[](size_t i) const {
    WEFT_DCHECK(i < kept());
    return ring_[(dropped() + i) % ring_.size()];
  }
  // Chrome's trace format; times in us of CLOCK_MONOTONIC. The rank is the process number.
  std::string to_json(uint32_t rank) const;

 private:
  std::array<Record, 256> ring_{};
  uint64_t added_ = 0;
  StepLog steps_;
  std::array<Total, static_cast<size_t>(Collective::barrier) + 1> totals_{};
};

// From the clock of this process, which has an epoch of its own, to CLOCK_MONOTONIC; in us.
double host_us(Instant time);
// Elements of the call times their size.
uint64_t bytes_of(const Call& call) noexcept;

}  // namespace weft::collective
