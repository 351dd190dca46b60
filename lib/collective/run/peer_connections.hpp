// SPDX-License-Identifier: BSD-3-Clause
// The mesh: one device, and for each traffic class a lane, which is a link to every other rank.
// Lane by lane, each rank publishes where it listens, then connects to the ranks below it and
// accepts those above, so nobody waits in a circle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/collective/run/link.hpp"
#include "lib/collective/run/liveness.hpp"
#include "weft/store.hpp"

namespace weft::collective {

struct MeshOptions {
  std::string device;  // as for Device::open
  std::string name;    // tells apart communicators that share a store
  LinkShape shape;
  Duration connect_limit = Duration::from_s(30);
  Duration patience = Duration::from_ms(300);  // with a silent transport
  std::vector<uint32_t> classes = {2};         // of traffic: a lane for each, in this order
};

// What the environment says if nothing is given; empty: Device::open knows.
std::string device_named(const std::string& given);

// How often RC sends before it takes the peer for dead, 4.096 us * 2^timeout apart.
struct Tries {
  uint8_t timeout = 0;
  uint8_t count = 0;
  Duration time() const { return Duration::from_ns(4096) * (int64_t{count} << timeout); }
};
// The fewest and shortest that take at least `patience`.
Tries tries_for(Duration patience);
// A call that does not move asks those whom it waits for after this time. With the usual patience
// a dead host is found within half a second.
inline constexpr Duration kPingPause = Duration::from_ms(50);

struct Mesh {
  Device device;
  CompletionQueue cq;
  ProtectionDomain pd;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::vector<std::unique_ptr<Link>> links;  // in the order of their index
  std::vector<std::vector<Link*>> lanes;     // by rank; null for ourselves
  Liveness liveness;

  static Result<Mesh> connect(Store& store, uint32_t rank, uint32_t ranks,
                              const MeshOptions& options);
};

}  // namespace weft::collective
