// SPDX-License-Identifier: BSD-3-Clause
// The paths to one active peer: what is known of each, and which one the next packet takes. A path
// is an index into the engine's list of UDP source ports. The policy chooses among paths in service
// (lib/congestion/path_policy.hpp). Dead and slow paths are suspended: they carry no data, only
// probes at growing intervals, which find out whether they work again.
//
// Between several pairs of addresses (routes) there are as many paths on each: those of the first
// route, then those of the second. The route with the least in flight carries the next packet, so
// each gets as much as it delivers; its own policy chooses the path. A route that loses several
// packets in a row is suspended as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "lib/congestion/path_policy.hpp"
#include "weft/device.hpp"
#include "weft/units.hpp"

namespace weft::srd {

using congestion::PathChoice;

inline constexpr uint32_t kMostPaths = 256;
inline constexpr uint32_t kMostRoutes = 16;  // pairs of addresses

// What is known of one path.
struct PathState {
  uint32_t rtt_ns = 0;          // smoothed, 0 = none yet
  uint32_t probe_at_us = 0;     // suspended: time of the next probe, wrapping
  uint16_t next_sequence = 0;   // of the next packet sent on it
  uint16_t acked_sequence = 0;  // highest one known to have arrived
  uint8_t lost = 0;             // losses in a row: at kDead the path is dead
  uint8_t probes = 0;           // since it was suspended
  bool ever_acked = false;
  bool suspended = false;
};
static_assert(sizeof(PathState) <= 16);

// Packets of one path, if they are counted.
struct PathTally {
  uint64_t sent = 0, lost = 0, marked = 0;
};

class PathSet {
 public:
  static constexpr uint8_t kDead = 2;
  static constexpr uint8_t kDeadRoute = 6;
  static constexpr uint32_t kNone = UINT32_MAX;

  // `count` >= 1 paths; some policies use the largest power of two that fits. Memory is allocated
  // for the feedback of `in_flight` packets.
  void start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed);

  // Adds the paths of further routes, `routes` in all; what is known stays. Throws std::bad_alloc,
  // and nothing has changed.
  void grow(uint32_t routes);

  // After start(): counts packets per path from now on, or not.
  void count_packets(bool wanted);

  uint8_t choose(Instant now) noexcept;
  // A path for what was lost on `bad`: another one if there is one.
  uint8_t choose_other(uint8_t bad, Instant now) noexcept;

  // A suspended path that is to be probed now, or kNone. Of slow paths one per millisecond or per
  // 64 packets: each probe is a datagram of its own, and where processes share processors, most
  // paths have a slow round trip now and then.
  uint32_t take_probe(Instant now) noexcept;

  // The number of the next packet on the path, which is about to be sent.
  uint16_t take_sequence(uint8_t path) noexcept {
    if (tallies_ != nullptr) ++tallies_[path].sent;
    ++since_probe_;
    ++in_flight_[route_of(path)];
    return states_[path].next_sequence++;
  }
  // A packet that was sent on the path is not in flight any more, for whatever reason.
  void on_end(uint8_t path) noexcept {
    WEFT_DCHECK(path < count_ && in_flight_[route_of(path)] > 0);
    --in_flight_[route_of(path)];
  }
  // A packet that was sent once, on this path, has arrived.
  void on_arrival(uint8_t path, uint16_t path_sequence) noexcept;
  void on_ack(uint8_t path, bool marked, Instant now) noexcept;
  void on_rtt(uint8_t path, Duration rtt, Instant now) noexcept;
  void on_loss(uint8_t path, Instant now) noexcept;
  void on_timeout(uint8_t path, Instant now) noexcept;
  // The packet arrived without its payload: the path works and is full, unless the last link is.
  void on_trimmed(uint8_t path, bool last_hop, Instant now) noexcept;
  void set_rtt(Duration rtt) noexcept {
    if (choice_ != PathChoice::plb) return;  // the only policy that uses it
    for (RouteState& route : routes_) route.policy.set_rtt(rtt);
  }

  PathState& operator[](uint8_t path) noexcept {
    WEFT_DCHECK(path < count_);
    return states_[path];
  }
  uint32_t count() const noexcept { return count_; }
  uint32_t dead() const noexcept;
  PathReport report(uint32_t path) const noexcept;  // without source port and addresses
  uint32_t slow() const noexcept;
  // Packets in flight on all routes.
  uint32_t in_flight() const noexcept;
  // Asserts that the counts of suspended paths match their states.
  void check_invariants() const noexcept;

 private:
  struct RouteState {
    congestion::PathPolicy policy;
    uint32_t suspended = 0;  // paths
    uint8_t lost = 0;        // packets in a row: at kDeadRoute all paths are dead
  };
  uint32_t route_of(uint32_t path) const noexcept { return path < size_ ? 0 : path / size_; }
  bool in_service(uint32_t route) const noexcept { return routes_[route].suspended != size_; }
  uint32_t next_route(uint32_t except) noexcept;
  uint8_t choose_on(uint32_t route, Instant now) noexcept;
  void feed(uint32_t path, congestion::PathFeedback feedback, Instant now) {
    WEFT_DCHECK(path < count_);
    const uint32_t route = route_of(path);
    routes_[route].policy.on_feedback(static_cast<uint16_t>(path - route * size_), feedback, now);
  }
  void start_policy(RouteState& route, uint64_t seed);
  void count_loss(uint32_t route, Instant now) noexcept;
  bool is_dead(uint32_t path) const noexcept { return states_[path].lost >= kDead; }
  bool is_slow(uint32_t path) const noexcept { return states_[path].rtt_ns > slow_ns_; }
  bool is_unfit(uint32_t path) const noexcept { return is_dead(path) || is_slow(path); }
  uint32_t us_of(Instant now) const noexcept { return static_cast<uint32_t>(now.ps / 1'000'000); }
  void find_slow_paths(Instant now) noexcept;
  void suspend(uint32_t path, Instant now) noexcept;
  void resume(uint32_t path) noexcept {
    states_[path].probes = 0;
    if (states_[path].suspended) end_suspension(path);
  }
  void end_suspension(uint32_t path) noexcept;

  PathChoice choice_ = PathChoice::single;
  uint32_t size_ = 1;   // paths of a route
  uint32_t count_ = 1;  // of all
  uint32_t most_in_flight_ = 0;
  uint32_t route_count_ = 1;
  uint32_t in_flight_[kMostRoutes] = {};  // packets of each route
  std::vector<RouteState> routes_{1};
  uint32_t last_route_ = 0;
  uint32_t suspended_ = 0;         // paths
  uint32_t last_probed_ = 0;       // path
  uint32_t since_probe_ = 0;       // packets
  Instant quiet_until_;            // no slow path is probed, unless many packets are sent
  uint32_t slow_ns_ = UINT32_MAX;  // a path that takes longer is slow
  uint32_t measured_ = 0;          // round trips since slow_ns_ was updated
  base::Random random_{1};
  std::unique_ptr<PathState[]> states_;
  std::unique_ptr<PathTally[]> tallies_;  // null: not counted
};

}  // namespace weft::srd
