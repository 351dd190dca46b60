// SPDX-License-Identifier: BSD-3-Clause
// The executor runs one plan at a time over the links of a lane: it starts every step whose
// dependencies are done, and never blocks. It has no clock; its owner handles failures of links.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/plan/plan.hpp"
#include "lib/collective/run/link.hpp"
#include "lib/collective/run/trace.hpp"

namespace weft::collective {

// A plan and its memory.
struct Execution {
  const Plan* plan = nullptr;
  Arithmetic arithmetic;
  Call call;
  std::array<std::byte*, 3> spaces{};                // input, output, work
  std::vector<const MemoryRegion*> regions;          // puts from their memory are sent by reference
  std::vector<const MemoryRegion*> remote_writable;  // peers may write pieces there
  bool oversubscribed = false;                       // other threads want this processor
  StepLog* log = nullptr;                            // may be null

  // The work space holds accumulators unless the type's sums are exact.
  bool wide(const Range& range) const { return range.space == Space::work && !plan->shape.exact; }
  size_t width(const Range& range) const {  // bytes of an element
    return range.space == Space::work ? arithmetic.accumulator : arithmetic.element;
  }
  uint64_t bytes(const Range& range) const { return range.count * width(range); }
  // Computed as a number: the spaces of an exchange begin at address 0.
  std::byte* at(const Range& range) const {
    const uintptr_t base = reinterpret_cast<uintptr_t>(spaces[static_cast<size_t>(range.space)]);
    return reinterpret_cast<std::byte*>(base + range.offset * width(range));
  }
  uint64_t received_bytes(const Step& step) const {
    return step.target.count * (step.wide ? arithmetic.accumulator : arithmetic.element);
  }
  void log_piece(const Link& link, uint64_t piece, uint64_t bytes, bool sent) const {
    if (log != nullptr) log->add(call, piece, link.peer(), bytes, sent);
  }
};

// The region that covers the memory, or null.
const MemoryRegion* region_of(std::span<const MemoryRegion* const> regions,
                              std::span<const std::byte> memory);

// A piece that does not belong to the running call.
struct Mismatch {
  uint32_t rank = 0;
  Call theirs;
};

class Executor {
 public:
  explicit Executor(std::span<Link* const> by_rank) : links_(by_rank) {}

  // To be filled before start(); has no regions.
  Execution& prepare();
  void start();
  bool running() const { return execution_.plan != nullptr; }
  // No piece of the plan has been sent or consumed.
  bool nothing_transferred() const { return activity_ == activity_at_start_; }
  // Does the steps that are ready, or about `most` of them. True if the plan is finished.
  bool advance(uint64_t most = UINT64_MAX);
  // A put by reference has completed.
  void on_put_done(uint32_t step) { finish(step); }
  void stop() { execution_.plan = nullptr; }
  // From now on this plan's pieces go through slots.
  void stop_waiting_for_advertisements() { awaits_advertisements_ = false; }

  const std::optional<Mismatch>& mismatch() const { return mismatch_; }
  // Totals since the executor exists.
  uint64_t steps_done() const { return steps_done_; }
  uint64_t activity() const { return activity_; }  // steps done, and puts posted
  uint64_t placed() const { return placed_; }      // pieces that arrived at their final place

  // Peers that the plan still waits for, in either direction.
  std::vector<uint32_t> awaited_ranks() const;
  bool depends_on(uint32_t rank) const;
  bool has_receives_from(uint32_t rank) const;     // beyond the pieces that have arrived
  bool has_sends_for(uint32_t rank) const;         // not posted yet
  std::vector<uint32_t> advertised_ranks() const;  // may write to this plan's memory

  // Fails a DCHECK if the counters of the running plan contradict each other.
  void check_invariants() const;

 private:
  void receive_all(size_t i);
  void put_all(size_t i);
  uint32_t pieces_of(const PeerSteps& of_peer, const Step& step) const;
  void run_local();
  bool uses_rendezvous(const Link& link, uint64_t bytes) const;
  void advertise_all(size_t i);
  Advertisement advertisement_for(const Step& step) const;
  bool was_advertised(size_t i, const Step& step) const;
  void prepare_target(const Step& step);
  bool bounded() const { return activity_limit_ != UINT64_MAX; }
  bool limit_reached() const { return activity_ >= activity_limit_; }
  bool put(Link& link, size_t i, uint32_t index);
  void receive_piece(const Step& step, const std::byte* payload);
  void run(const Step& step);
  void finish(uint32_t step);
  bool ready(uint32_t step) const { return waits_[step] == 0; }

  std::span<Link* const> links_;
  Execution execution_;
  uint64_t activity_ = 0;
  uint64_t activity_at_start_ = 0;        // of the plan
  uint64_t activity_limit_ = UINT64_MAX;  // this advance() returns when activity_ reaches it
  std::vector<uint32_t> local_;           // steps that are ready
  std::vector<uint32_t> state_;           // the four arrays below, as in Plan::initial
  uint32_t* waits_ = nullptr;             // per step: dependencies that are not done
  uint32_t* next_put_ = nullptr;          // per peer of Plan::puts
  uint32_t* next_receive_ = nullptr;      // per peer of Plan::receives
  uint32_t* next_advertisement_ = nullptr;
  bool rescan_ = false;      // a step became ready behind the scan of advance()
  bool rendezvous_ = false;  // the links support it
  bool awaits_advertisements_ = true;
  size_t steps_left_ = 0;
  uint64_t steps_done_ = 0, placed_ = 0;
  std::optional<Mismatch> mismatch_;
};

}  // namespace weft::collective
