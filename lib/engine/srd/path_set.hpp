// SPDX-License-Identifier: BSD-3-Clause
// The paths to one active peer: what is known of each, and which one the next packet takes. A path
// is an index into the engine's list of UDP source ports. Among paths that live the policy chooses
// (lib/congestion/path_policy.hpp); dead ones are left alone, and tried now and then.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/random.hpp"
#include "lib/congestion/path_policy.hpp"
#include "weft/units.hpp"

namespace weft::engine::srd {

using congestion::PathChoice;
inline constexpr const auto& kPathPolicyNames = congestion::kPathChoiceNames;

inline constexpr uint32_t kMostPaths = 256;

// What is known of one path.
struct PathState {
  uint32_t rtt_ns = 0;          // smoothed, 0 = none yet
  uint16_t next_sequence = 0;   // of the next packet sent on it
  uint16_t acked_sequence = 0;  // the highest one that is known to have arrived
  uint8_t lost = 0;             // losses in a row: at kDead the path is left alone for a while
  bool ever_acked = false;
};
static_assert(sizeof(PathState) <= 16);

class PathSet {
 public:
  static constexpr uint8_t kDead = 3;

  // `count` >= 1 paths; the walks of some policies use the largest power of two that fits. Room is
  // made for what `in_flight` packets may leave to remember.
  void start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed);

  uint8_t choose(Instant now) noexcept;
  // A path for what was lost on `bad`: another one if there is any.
  uint8_t choose_other(uint8_t bad, Instant now) noexcept;

  void on_ack(uint8_t path, bool marked, Instant now) noexcept;
  void on_loss(uint8_t path, Instant now) noexcept;
  void on_timeout(uint8_t path, Instant now) noexcept;
  void set_rtt(Duration rtt) noexcept { policy_.set_rtt(rtt); }

  PathState& operator[](uint8_t path) noexcept { return states_[path]; }
  uint32_t count() const noexcept { return count_; }
  uint32_t dead() const noexcept;

 private:
  bool resting(uint8_t path, Instant now) noexcept;

  PathChoice choice_ = PathChoice::single;
  uint32_t count_ = 1;
  congestion::PathPolicy policy_;
  Instant probe_at_;  // when a dead path may be tried again
  base::Random random_{1};
  std::unique_ptr<PathState[]> states_;
};

}  // namespace weft::engine::srd
