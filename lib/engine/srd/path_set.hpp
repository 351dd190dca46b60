// SPDX-License-Identifier: BSD-3-Clause
// The paths to one active peer: what is known of each, and which one the next packet takes. A path
// is an index into the engine's list of UDP source ports. Among paths that live the policy chooses
// (lib/congestion/path_policy.hpp). Dead ones and slow ones rest: no data goes there, but an empty
// packet now and then finds out whether they are well again, more and more seldom, for ever.
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
  uint32_t probe_at_us = 0;     // resting: when it is tried, since the start, wrapping
  uint16_t next_sequence = 0;   // of the next packet sent on it
  uint16_t acked_sequence = 0;  // the highest one that is known to have arrived
  uint8_t lost = 0;             // losses in a row: at kDead the path rests
  uint8_t probes = 0;           // since it rests
  bool ever_acked = false;
  bool resting = false;
};
static_assert(sizeof(PathState) <= 16);

class PathSet {
 public:
  static constexpr uint8_t kDead = 2;
  static constexpr uint32_t kNone = UINT32_MAX;

  // `count` >= 1 paths; the walks of some policies use the largest power of two that fits. Room is
  // made for what `in_flight` packets may leave to remember.
  void start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed);

  uint8_t choose(Instant now) noexcept;
  // A path for what was lost on `bad`: another one if there is any.
  uint8_t choose_other(uint8_t bad, Instant now) noexcept;

  // A resting path that is to be tried now, or kNone.
  uint32_t take_probe(Instant now) noexcept;

  // A packet of the path has arrived that was sent once.
  void on_arrival(uint8_t path, uint16_t path_sequence) noexcept;
  void on_ack(uint8_t path, bool marked, Instant now) noexcept;
  void on_rtt(uint8_t path, Duration rtt, Instant now) noexcept;
  void on_loss(uint8_t path, Instant now) noexcept;
  void on_timeout(uint8_t path, Instant now) noexcept;
  void set_rtt(Duration rtt) noexcept { policy_.set_rtt(rtt); }

  PathState& operator[](uint8_t path) noexcept { return states_[path]; }
  uint32_t count() const noexcept { return count_; }
  uint32_t dead() const noexcept;
  uint32_t slow() const noexcept;

 private:
  bool is_dead(uint32_t path) const noexcept { return states_[path].lost >= kDead; }
  bool is_slow(uint32_t path) const noexcept { return states_[path].rtt_ns > slow_ns_; }
  bool rests(uint32_t path) const noexcept { return is_dead(path) || is_slow(path); }
  uint32_t us_of(Instant now) const noexcept { return static_cast<uint32_t>(now.ps / 1'000'000); }
  void look_for_slow(Instant now) noexcept;
  void rest(uint32_t path, Instant now) noexcept;
  void wake(uint32_t path) noexcept;

  PathChoice choice_ = PathChoice::single;
  uint32_t count_ = 1;
  congestion::PathPolicy policy_;
  uint32_t resting_ = 0;           // how many
  uint32_t slow_ns_ = UINT32_MAX;  // a path that takes longer is slow
  uint32_t looked_ = 0;            // round trips measured since then
  base::Random random_{1};
  std::unique_ptr<PathState[]> states_;
};

}  // namespace weft::engine::srd
