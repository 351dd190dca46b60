// SPDX-License-Identifier: BSD-3-Clause
// The executor runs one plan at a time over the links: it starts every step whose turn has come,
// and never blocks. It knows no time; failures of links are its owner's business.
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

// What a plan runs on. Puts of memory that `regions` cover go by reference, and pieces can be put
// into memory that `open` ones cover.
struct Execution {
  const Plan* plan = nullptr;
  Arithmetic arithmetic;
  Call call;
  std::array<std::byte*, 3> spaces{};  // input, output, work
  std::vector<const MemoryRegion*> regions, open;
  bool crowded = false;    // others want our processor too
  StepLog* log = nullptr;  // of what is sent and received; may be null
};

const MemoryRegion* region_of(std::span<const MemoryRegion* const> regions,
                              std::span<const std::byte> memory);

// A piece of data that belongs to another call than ours.
struct Mismatch {
  uint32_t rank = 0;
  Call theirs;
};

class Executor {
 public:
  explicit Executor(std::span<Link* const> by_rank) : links_(by_rank) {}

  // To be filled before start(); names no regions.
  Execution& prepare();
  void start();
  bool running() const { return execution_.plan != nullptr; }
  // Nothing of the plan has been sent or taken.
  bool untouched() const { return worked_ == began_; }
  // Does what can be done now, or about so many steps of it. True if the plan is finished.
  bool advance(uint64_t most = UINT64_MAX);
  // A put by reference is done.
  void finish_put(uint32_t step) { finish(step); }
  void stop() { execution_.plan = nullptr; }
  // The receivers have had time enough to invite pieces: from now on they go through slots.
  void stop_waiting_for_invitations() { awaits_invitations_ = false; }

  const std::optional<Mismatch>& mismatch() const { return mismatch_; }
  uint64_t moved() const { return moved_; }    // steps done since the beginning
  uint64_t worked() const { return worked_; }  // these, and puts begun
  uint64_t placed() const { return placed_; }  // pieces that peers put to their final place, too
  // Ranks that have still to send us something, or to take something.
  std::vector<uint32_t> awaited() const;
  bool needs(uint32_t rank) const;
  bool expects(uint32_t rank) const;      // it has to send us more than has arrived
  bool gives(uint32_t rank) const;        // we have to send it more than we have
  std::vector<uint32_t> invited() const;  // that may put pieces into our memory

 private:
  uint64_t expected_bytes(const Step& step) const;
  void receive_all(size_t i);
  void put_all(size_t i);
  uint32_t pieces_of(const PeerSteps& of_peer, const Step& step) const;
  void run_local();
  bool by_invitation(const Link& link, uint64_t bytes) const;
  void invite_all(size_t i);
  Invitation invitation_for(const Step& step) const;
  bool may_be_placed(size_t i, const Step& step) const;
  void prepare_place(const Step& step);
  bool bounded() const { return until_ != UINT64_MAX; }
  bool enough() const { return worked_ >= until_; }
  bool put(Link& link, size_t i, uint32_t index);
  void receive_piece(const Step& step, const std::byte* payload);
  void run(const Step& step);
  void finish(uint32_t step);
  void note(const Link& link, uint64_t piece, uint64_t bytes, bool sent) const;
  bool ready(uint32_t step) const { return waits_[step] == 0; }
  std::byte* at(const Range& range) const;
  uint64_t bytes(const Range& range) const;
  size_t width(const Range& range) const;
  bool wide(const Range& range) const {
    return range.space == Space::work && !execution_.plan->shape.exact;
  }

  std::span<Link* const> links_;
  Execution execution_;
  uint64_t worked_ = 0;          // steps done and puts begun
  uint64_t began_ = 0;           // `worked_` at the plan's beginning
  uint64_t until_ = UINT64_MAX;  // this advance() ends when worked_ is that
  std::vector<uint32_t> local_;  // ready
  std::vector<uint32_t> state_;  // holds the next four, as Plan::initial
  uint32_t* waits_ = nullptr;    // per step
  uint32_t* next_put_ = nullptr;
  uint32_t* next_receive_ = nullptr;
  uint32_t* next_invite_ = nullptr;
  bool again_ = false;    // another look may find more to do
  bool invites_ = false;  // pieces, as the links do
  bool awaits_invitations_ = true;
  size_t left_ = 0;
  uint64_t moved_ = 0, placed_ = 0;
  std::optional<Mismatch> mismatch_;
};

}  // namespace weft::collective
