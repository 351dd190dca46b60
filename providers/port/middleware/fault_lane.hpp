// SPDX-License-Identifier: BSD-3-Clause
// One direction of the fault port: decides the fate of each frame, changes copies of those that are
// hit, and holds copies back until they are due. All memory is taken at the start.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/transport/frame.hpp"
#include "providers/port/middleware/fault_options.hpp"
#include "providers/port/middleware/held_frame.hpp"

namespace weft::middleware {

// It has no stable layout for this.
// clang-format off
#define WEFT_FAULTS(X) \
  X(loss) X(burst) X(ack_loss) X(dup) X(reorder) X(delay) X(rate) \
  X(corrupt_header) X(corrupt_payload) X(corrupt_icrc) X(truncate) X(pad) X(merge) \
  X(blackhole) X(ecn) X(overflow)
// clang-format on

enum class Fault : uint8_t {
#define X(name) name,
  WEFT_FAULTS(X)
#undef X
      end_
};
inline constexpr size_t kFaultEnd = static_cast<size_t>(Fault::end_);
inline constexpr std::array<std::string_view, kFaultEnd> kFaultNames = {
#define X(name) "fault_" #name,
    WEFT_FAULTS(X)
#undef X
};

class FaultLane {
 public:
  FaultLane(FaultDirection self, uint64_t seed);

  // What happens to the next frame, whose opcode is `opcode`.
  struct Fate {
    bool drop = false;
    bool pass = true;    // passes unchanged
    bool mark = false;   // with an ECN mark
    uint8_t copies = 0;  // go on through hold()
    bool plain() const noexcept { return pass && copies == 0 && !mark; }
  };
  Fate decide(const FaultOptions& options, uint8_t opcode, Instant now) noexcept;

  // A buffer to copy the frame into, nullptr if all are in use (the frame is lost and counted).
  HeldFrame* take() noexcept;
  void give(HeldFrame* frame) noexcept { free_[free_count_++] = frame; }
  // Applies what decide() chose to the copy and queues it for when it is due.
  void hold(const FaultOptions& options, const Fate& fate, HeldFrame* frame, Instant now) noexcept;
  // The next frame that is due, or nullptr; it stays queued until pop().
  HeldFrame* due(Instant now) noexcept {
    return heap_size_ != 0 && heap_[0].at <= now ? heap_[0].frame : nullptr;
  }
  void pop() noexcept;
  bool empty() const noexcept { return heap_size_ == 0; }
  uint64_t operator[](Fault fault) const noexcept { return counters_[static_cast<size_t>(fault)]; }

 private:
  static constexpr size_t kFrames = 1024;
  struct Entry {
    Instant at;
    uint64_t sequence;
    HeldFrame* frame;
  };
  static bool later(const Entry& a, const Entry& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }
  void count(Fault fault) noexcept { ++counters_[static_cast<size_t>(fault)]; }
  bool lost(const FaultOptions& options, uint8_t opcode, Instant now) noexcept;
  bool merged(HeldFrame* frame, HeldFrame*& whole) noexcept;
  void corrupt(HeldFrame& frame) noexcept;
  void change_length(HeldFrame& frame) noexcept;
  void push(HeldFrame* frame, Instant at) noexcept;

  const FaultDirection self_;
  base::Random random_;
  std::unique_ptr<HeldFrame[]> frames_;
  std::unique_ptr<HeldFrame*[]> free_;
  size_t free_count_ = 0;
  std::unique_ptr<Entry[]> heap_;
  size_t heap_size_ = 0;
  uint64_t sequence_ = 0;
  Instant last_due_;              // frames that are only delayed keep their order
  Instant idle_from_;             // when the last frame has passed at the limited rate
  HeldFrame* waiting_ = nullptr;  // for the frame that it will be glued to
  uint32_t burst_left_ = 0;
  // What decide() chose for the frame in flight.
  bool corrupt_ = false, truncate_ = false, pad_ = false, merge_ = false, reorder_ = false,
       late_ = false;
  std::array<uint64_t, kFaultEnd> counters_{};
};

}  // namespace weft::middleware
