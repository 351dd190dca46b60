// SPDX-License-Identifier: BSD-3-Clause
// The execution state of one call's programs on all ranks: which steps wait for which. A model
// moves the messages: it takes the ready puts, and reports when a message has been sent and when it
// has arrived. Local steps take no time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lib/collective/plan/plan.hpp"

namespace weft::collective {

class ProgramRun {
 public:
  struct Put {
    uint32_t from = 0, to = 0, step = 0;
    double bytes = 0;
    uint8_t dimension = kAnyDimension;
    // If it follows another put to the same rank: the latency that the earlier one had travelled
    // when it was reported as sent.
    double travelled_s = 0;
  };

  // `element` and `accumulator` in bytes.
  ProgramRun(const Shape& shape, const std::vector<Program>& programs, double element,
             double accumulator);

  // Puts that became ready since the last call: one at a time from a rank to a peer, in program
  // order.
  std::vector<Put> take_ready_puts() { return std::exchange(ready_puts_, {}); }
  // The put's source may be overwritten, and the next put to the same rank may start.
  void on_sent(const Put& put);
  // The next message from `from` has arrived at `to`.
  void on_arrived(uint32_t from, uint32_t to);
  void on_arrived(const Put& put) { on_arrived(put.from, put.to); }
  bool done() const { return steps_remaining_ == 0; }

 private:
  // The puts from one rank to another, and the matching receives.
  struct Pair {
    uint32_t to = 0;
    const std::vector<uint32_t>* puts = nullptr;
    const std::vector<uint32_t>* receives = nullptr;
    size_t next_put = 0, next_receive = 0;
    uint32_t arrived = 0;  // messages not yet received
    bool busy = false;
  };
  Pair& pair(uint32_t from, uint32_t to);
  double bytes_of(uint32_t rank, uint32_t step) const;
  void start_put(uint32_t from, uint32_t to, double travelled_s = 0);
  void run_receives(uint32_t from, uint32_t to);
  void finish(uint32_t rank, uint32_t step);

  Shape shape_;
  double element_, accumulator_;
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<std::vector<uint32_t>> pending_dependencies_;
  std::vector<std::vector<Pair>> pairs_;  // per sender, sorted by receiver: sparse
  std::vector<Put> ready_puts_;
  size_t steps_remaining_ = 0;
};

}  // namespace weft::collective
