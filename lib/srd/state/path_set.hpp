// SPDX-License-Identifier: BSD-3-Clause
// The paths to one active peer: what is known of each, and which one the next packet takes. A path
// is an index into the engine's list of UDP source ports. Among paths that live the policy chooses
// (lib/congestion/path_policy.hpp). Dead ones and slow ones rest: no data goes there, but an empty
// packet now and then finds out whether they are well again, more and more seldom, for ever.
//
// Between several pairs of addresses (ways) there are as many paths on each: those of the first,
// then those of the second. The way with the least in flight has the next packet, so each gets what
// it carries; which of its paths, its own policy says. A way that loses several packets in a row
// rests as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/congestion/path_policy.hpp"
#include "weft/device.hpp"
#include "weft/units.hpp"

namespace weft::srd {

using congestion::PathChoice;
inline constexpr const auto& kPathPolicyNames = congestion::kPathChoiceNames;

inline constexpr uint32_t kMostPaths = 256;
inline constexpr uint32_t kMostWays = 16;  // pairs of addresses

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

// Packets of one path, for those who want to see them.
struct PathTally {
  uint64_t sent = 0, lost = 0, marked = 0;
};

class PathSet {
 public:
  static constexpr uint8_t kDead = 2;
  static constexpr uint8_t kDeadWay = 6;
  static constexpr uint32_t kNone = UINT32_MAX;

  // `count` >= 1 paths; the walks of some policies use the largest power of two that fits. Room is
  // made for what `in_flight` packets may leave to remember.
  void start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed);

  // There are as many paths on each of `ways` ways now, more than before; what is known stays.
  // Nothing has changed if it throws std::bad_alloc.
  void grow(uint32_t ways);

  // After start(): counts packets per path from now on, or does not.
  void count_packets(bool wanted);

  uint8_t choose(Instant now) noexcept;
  // A path for what was lost on `bad`: another one if there is any.
  uint8_t choose_other(uint8_t bad, Instant now) noexcept;

  // A resting path that is to be tried now, or kNone. However many are slow: one of them in a
  // millisecond, or of 64 packets. Each is a datagram of its own, and where processes share
  // processors, most paths have a slow round trip now and then.
  uint32_t take_probe(Instant now) noexcept;

  // The number of the next packet on the path, which is about to be sent.
  uint16_t take_sequence(uint8_t path) noexcept {
    if (tallies_ != nullptr) ++tallies_[path].sent;
    ++since_probe_;
    ++in_flight_[way_of(path)];
    return states_[path].next_sequence++;
  }
  // A packet that was sent on the path is in flight no more, whatever became of it.
  void on_end(uint8_t path) noexcept { --in_flight_[way_of(path)]; }
  // A packet of the path has arrived that was sent once.
  void on_arrival(uint8_t path, uint16_t path_sequence) noexcept;
  void on_ack(uint8_t path, bool marked, Instant now) noexcept;
  void on_rtt(uint8_t path, Duration rtt, Instant now) noexcept;
  void on_loss(uint8_t path, Instant now) noexcept;
  void on_timeout(uint8_t path, Instant now) noexcept;
  // The packet came without its payload: the path lives, and is full, unless it was the last link.
  void on_trimmed(uint8_t path, bool last_hop, Instant now) noexcept;
  void set_rtt(Duration rtt) noexcept {
    if (choice_ != PathChoice::plb) return;  // nobody else asks
    for (WayState& way : ways_) way.policy.set_rtt(rtt);
  }

  PathState& operator[](uint8_t path) noexcept { return states_[path]; }
  uint32_t count() const noexcept { return count_; }
  uint32_t dead() const noexcept;
  PathReport report(uint32_t path) const noexcept;  // but its source port
  uint32_t slow() const noexcept;

 private:
  struct WayState {
    congestion::PathPolicy policy;
    uint32_t resting = 0;  // paths
    uint8_t lost = 0;      // packets in a row: at kDeadWay all paths rest
  };
  uint32_t way_of(uint32_t path) const noexcept { return path < size_ ? 0 : path / size_; }
  bool lives(uint32_t way) const noexcept { return ways_[way].resting != size_; }
  uint32_t next_way(uint32_t except) noexcept;
  uint8_t choose_on(uint32_t way, Instant now) noexcept;
  void feed(uint32_t path, congestion::PathFeedback feedback, Instant now) {
    const uint32_t way = way_of(path);
    ways_[way].policy.on_feedback(static_cast<uint16_t>(path - way * size_), feedback, now);
  }
  void start_policy(WayState& way, uint64_t seed);
  void count_loss(uint32_t way, Instant now) noexcept;
  bool is_dead(uint32_t path) const noexcept { return states_[path].lost >= kDead; }
  bool is_slow(uint32_t path) const noexcept { return states_[path].rtt_ns > slow_ns_; }
  bool rests(uint32_t path) const noexcept { return is_dead(path) || is_slow(path); }
  uint32_t us_of(Instant now) const noexcept { return static_cast<uint32_t>(now.ps / 1'000'000); }
  void look_for_slow(Instant now) noexcept;
  void rest(uint32_t path, Instant now) noexcept;
  void wake(uint32_t path) noexcept {
    states_[path].probes = 0;
    if (states_[path].resting) end_rest(path);
  }
  void end_rest(uint32_t path) noexcept;

  PathChoice choice_ = PathChoice::single;
  uint32_t size_ = 1;   // paths of a way
  uint32_t count_ = 1;  // of all
  uint32_t most_in_flight_ = 0;
  uint32_t way_count_ = 1;
  uint32_t in_flight_[kMostWays] = {};  // packets, of each way
  std::vector<WayState> ways_{1};
  uint32_t last_way_ = 0;
  uint32_t resting_ = 0;           // how many
  uint32_t last_probed_ = 0;       // path
  uint32_t since_probe_ = 0;       // packets
  Instant quiet_until_;            // no slow path is tried, unless many packets are sent
  uint32_t slow_ns_ = UINT32_MAX;  // a path that takes longer is slow
  uint32_t looked_ = 0;            // round trips measured since then
  base::Random random_{1};
  std::unique_ptr<PathState[]> states_;
  std::unique_ptr<PathTally[]> tallies_;  // null: nobody wants them
};

}  // namespace weft::srd
