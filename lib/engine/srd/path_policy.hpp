// SPDX-License-Identifier: BSD-3-Clause
// Which path the next packet takes. A path is an index into the engine's list of UDP source ports;
// what switches make of a port is not known here, only what came back. One PathSet per active peer.
//
//   single     one path for ever: per-flow ECMP, for comparison
//   oblivious  every path in turn, in an order that changes each round
//   bitmap     the same walk, but a path with a penalty is passed over while others have none
//   reps       paths that just did well are used again, others at random (recycled entropies)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/random.hpp"
#include "weft/units.hpp"

namespace weft::engine::srd {

enum class PathPolicy : uint8_t { single, oblivious, bitmap, reps };
inline constexpr std::string_view kPathPolicyNames[] = {"single", "oblivious", "bitmap", "reps"};

inline constexpr uint32_t kMostPaths = 256;

// What is known of one path.
struct PathState {
  uint32_t rtt_ns = 0;          // smoothed, 0 = none yet
  uint16_t next_sequence = 0;   // of the next packet sent on it
  uint16_t acked_sequence = 0;  // the highest one that is known to have arrived
  uint8_t penalty = 0;          // bitmap: 0..15
  uint8_t lost = 0;             // losses in a row: at kDead the path is left alone for a while
  bool ever_acked = false;
};
static_assert(sizeof(PathState) <= 16);

class PathSet {
 public:
  static constexpr uint8_t kDead = 3;

  // `count` >= 1 paths; the bitmap walk needs a power of two and uses the largest one that fits.
  void start(PathPolicy policy, uint32_t count, uint64_t seed);

  uint8_t choose(Instant now) noexcept;
  // A path for what was lost on `bad`: another one if there is any.
  uint8_t choose_other(uint8_t bad, Instant now) noexcept;

  void on_ack(uint8_t path, bool marked) noexcept;
  void on_loss(uint8_t path, Instant now) noexcept;
  void on_timeout(uint8_t path, Instant now) noexcept;

  PathState& operator[](uint8_t path) noexcept { return states_[path]; }
  uint32_t count() const noexcept { return count_; }
  uint32_t dead() const noexcept;

 private:
  uint8_t next_of_walk() noexcept;
  uint8_t pick(Instant now) noexcept;
  bool resting(uint8_t path, Instant now) noexcept;
  void punish(uint8_t path, uint8_t by) noexcept;

  PathPolicy policy_ = PathPolicy::single;
  uint32_t count_ = 1;
  uint32_t mask_ = 0;  // of the walk
  uint32_t walked_ = 0;
  uint32_t order_ = 0;  // XORed to the walk's index, new each round
  uint8_t fixed_ = 0;
  static constexpr uint32_t kRing = 8;
  uint8_t ring_[kRing] = {};  // reps: paths seen good, oldest first from head
  uint32_t ring_head_ = 0, ring_tail_ = 0;
  Instant probe_at_;  // when a dead path may be tried again
  base::Random random_{1};
  std::unique_ptr<PathState[]> states_;
};

}  // namespace weft::engine::srd
