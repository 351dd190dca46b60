// SPDX-License-Identifier: BSD-3-Clause
// The connections of a rank: one device, and for each traffic class a lane, which is a link to
// every other rank. Lane by lane, each rank publishes where it listens, then connects to the ranks
// below it and accepts those above, so no ranks wait for each other in a cycle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/collective/run/link.hpp"
#include "lib/collective/run/liveness.hpp"
#include "weft/store.hpp"

namespace weft::collective {

struct PeerConnectionOptions {
  std::string device;  // as for Device::open
  std::string name;    // distinguishes communicators that share a store
  LinkShape shape;
  Duration connect_limit = Duration::from_s(30);
  Duration dead_peer_timeout = Duration::from_ms(300);
  std::vector<uint32_t> classes = {2};  // of traffic: a lane for each, in this order
  Security security{};
};

// `given`, or WEFT_DEVICE if it is empty; empty: Device::open has a default.
std::string device_or_default(const std::string& given);

// Retransmissions of RC before the peer counts as dead, 4.096 us * 2^timeout apart.
struct RetrySettings {
  uint8_t timeout = 0;
  uint8_t count = 0;
  Duration time() const { return Duration::from_ns(4096) * (int64_t{count} << timeout); }
};
// The fewest and shortest that last at least `dead_peer_timeout`.
RetrySettings retries_for(Duration dead_peer_timeout);
// A call that does not advance sends keepalives at this interval. With the default dead peer
// timeout a dead host is detected within half a second.
inline constexpr Duration kKeepaliveInterval = Duration::from_ms(50);

struct PeerConnections {
  Device device;
  CompletionQueue cq;
  ProtectionDomain pd;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::vector<std::unique_ptr<Link>> links;  // by link_index_of()
  std::vector<std::vector<Link*>> lanes;     // by rank; null for this rank
  Liveness liveness;

  static Result<PeerConnections> connect(Store& store, uint32_t rank, uint32_t ranks,
                                         const PeerConnectionOptions& options);
};

// Marks the links to these ranks: their processes have ended, and nothing more arrives.
void mark_exited(PeerConnections& connections, const std::vector<uint32_t>& ranks);
// Whether the rank's process has ended or has left. A broken link does not mean that.
bool has_exited(const PeerConnections& connections, uint32_t rank);

}  // namespace weft::collective
