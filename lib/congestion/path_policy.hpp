// SPDX-License-Identifier: BSD-3-Clause
// Which path the next packet takes, where a network has many. A path is known by its entropy value,
// a number that switches hash; what they make of it is not known here, only what came back.
//
//   single     one path for ever: per-flow ECMP, for comparison
//   oblivious  round robin over all paths, in an order that changes each round
//   bitmap     the same walk, but a path with a penalty is passed over while others have none
//   reps       paths that just did well are used again, others at random (recycled entropies)
//   mixed      paths that just did well, each once; else as bitmap
//   plb        one path, left for another when none of its packets did well for some RTTs
//
// Or one of a shared object (weft/path_policy.hpp).
//
// Those of the UEC simulator (uet-htsim), plb after Google's PLB (SIGCOMM 2022). A policy belongs
// to one flow or peer; the SRD engine and the simulator have it in common.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/base/ring_queue.hpp"
#include "weft/path_policy.hpp"
#include "weft/units.hpp"

namespace weft::congestion {

// Values behind these are policies that were loaded (path_names.hpp).
enum class PathChoice : uint8_t { single, oblivious, bitmap, reps, mixed, plb };
inline constexpr std::string_view kPathChoiceNames[] = {"single", "oblivious", "bitmap",
                                                        "reps",   "mixed",     "plb"};

struct PathRules {
  PathChoice choice = PathChoice::mixed;
  uint32_t count = 64;      // entropy values; walks use the largest power of two within it
  bool upper_bits = false;  // values of the walks get random bits above their index
  uint8_t not_arrived = 4;  // bitmap, mixed: the penalty for a packet that did not arrive
  uint32_t in_flight = 0;   // mixed: packets for whose paths room is made at the start
  bool freezes = false;     // reps: after an RTO only known good paths, for a while
  Duration rtt;             // plb, until set_rtt()
};

class PathPolicy {
 public:
  void start(const PathRules& rules, uint64_t seed);

  uint16_t next(Instant now) noexcept;
  void on_feedback(uint16_t entropy, PathFeedback feedback, Instant now);
  void set_rtt(Duration rtt) noexcept { rules_.rtt = rtt; }

 private:
  // The last good values, a ring buffer.
  class Ring {
   public:
    static constexpr uint32_t kSize = 8;
    bool empty() const noexcept { return filled_ == 0; }
    uint32_t unused() const noexcept { return unused_; }
    void put(uint16_t entropy) noexcept;
    uint16_t take_oldest_unused() noexcept;
    uint16_t cycle() noexcept;
    void clear() noexcept { *this = Ring(); }

   private:
    std::array<uint16_t, kSize> values_{};
    uint32_t head_ = 0;  // where the next one goes
    uint32_t filled_ = 0;
    uint32_t unused_ = 0;
    uint32_t turn_ = 0;
  };

  uint16_t next_of_walk() noexcept;
  uint16_t next_without_penalty() noexcept;
  uint16_t next_recycled(Instant now) noexcept;
  uint16_t next_patient(Instant now) noexcept;
  uint16_t any() noexcept { return static_cast<uint16_t>(random_.below(rules_.count)); }
  void recycle(uint16_t entropy, PathFeedback feedback, Instant now);

  PathRules rules_;
  uint16_t mask_ = 0;   // of an index
  uint16_t upper_ = 0;  // the bits above it
  uint32_t walked_ = 0;
  uint16_t order_ = 0;    // XORed to the walk's index, new each round
  uint16_t current_ = 0;  // single, plb
  std::vector<uint8_t> penalties_;
  Ring ring_;
  base::RingQueue<uint16_t> queue_;  // mixed: good, not used since
  uint32_t explore_ = 0;             // reps: random picks that are due
  Instant frozen_until_;             // reps: 0: not frozen
  Instant leave_at_;                 // plb
  base::Random random_{1};
  const PathKind* loaded_ = nullptr;  // in place of a built-in policy
  std::vector<uint64_t> state_;       // of loaded_
};

}  // namespace weft::congestion
