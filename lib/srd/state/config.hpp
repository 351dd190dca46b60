// SPDX-License-Identifier: BSD-3-Clause
// Configuration of an SRD engine.
#pragma once

#include <optional>

#include "lib/congestion/rccc.hpp"
#include "lib/srd/state/path_set.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/machine.hpp"

namespace weft::srd {

struct Config {
  Limits limits;
  Instant start;
  uint32_t paths = 64;
  PathChoice policy = PathChoice::reps;
  bool path_counters = false;                    // Engine::paths() reports packets per path
  std::optional<congestion::Preset> congestion;  // controller of each flow; none: the port's window
  bool halve_on_loss = true;                     // without a controller: the port's window
  // For senders that request credit.
  congestion::CreditPacer::Rules credit{
      .bits_per_second = 99e9, .grant_bytes = 16384, .most_bytes = 187'500};
  bool police_credit = false;  // packets beyond a sender's credit are dropped
  Duration least_rto = Duration::from_us(100);
  Duration first_rto = Duration::from_ms(10);        // until a round trip has been measured
  Duration dead_peer_timeout = Duration::from_s(2);  // without an acknowledgement of anything new
  bool waits_for_stopped = true;  // a peer that is stopped is not dead: stopped_peer.hpp
  uint32_t max_peers = 65536;
  // ACK coalescing: packets of a peer per acknowledgement, unless the sender requests one or
  // `ack_delay` has passed. 1: one acknowledgement per burst received.
  uint32_t ack_every = 1;
  Duration ack_delay = Duration::from_us(4);
  // Piggy-backing: an acknowledgement is delayed for a few calls of transmit(), at most this long,
  // so that the application's response leaves first and one acknowledgement covers several
  // requests. Zero: it leaves with the next transmit().
  Duration ack_piggyback_delay;
};

}  // namespace weft::srd
