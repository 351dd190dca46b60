// SPDX-License-Identifier: BSD-3-Clause
// What every handler of the SRD engine may use: the services of a protocol machine (key table,
// port, frame builder, random numbers, counters, completions, events), the configuration, timers,
// queue pairs by number, and the list of peers that have something to send. Handlers are free
// functions; the type of their first argument says what they may touch:
//
//   Context < SendContext (send/send.hpp) < ReceiveContext (receive/receive.hpp) < Engine
#pragma once

#include "lib/base/check.hpp"
#include "lib/base/line.hpp"
#include "lib/base/permutation.hpp"
#include "lib/base/timer_wheel.hpp"
#include "lib/srd/state/config.hpp"
#include "lib/srd/state/frame_paths.hpp"
#include "lib/srd/state/incarnation.hpp"
#include "lib/srd/state/peer.hpp"
#include "lib/srd/state/queue_pair.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/machine.hpp"
#include "lib/transport/qp_table.hpp"
#include "lib/wire/srd_parse.hpp"

namespace weft::srd {

// A packet that arrived, with what is known of it.
struct Arrival {
  const wire::SrdPacket& packet;
  const Frame& frame;
  Instant now;
  Peer* peer = nullptr;  // its source; null: not known
  Route route = {};
};

// Where an unsequenced packet goes.
struct Destination {
  Gid address;
  uint8_t local = 0;  // which of our addresses sends it
  bool in_memory = false;
};

struct Context : Machine {
  Context(Port& port, const Config& config, base::SecureRandom& random);

  Port& port() noexcept { return port_; }
  base::SecureRandom& random() noexcept { return random_; }
  FrameBuilder& builder() noexcept { return builder_; }
  bool has_valid_icrc(const Frame& frame) noexcept { return verify_icrc(frame, wire::kSrdUdpPort); }
  // expire() has to be called at `at`.
  void schedule(Instant at) noexcept { next_deadline_ = std::min(next_deadline_, at); }
  // The timer of `peer` fires at `deadline` or earlier; its handler examines what is due.
  void arm(Peer& peer, Instant deadline) noexcept;
  // The next transmit() serves `peer`.
  void activate(Peer& peer) noexcept { active.push(peer); }
  // One more frame can be built.
  bool has_room() const noexcept { return builder_.has_room() && frame_paths.has_room(); }

  QueuePair* find_qp(QpNum number) const noexcept { return queue_pairs.find(number); }
  // Pushes a completion; an overrun puts the queue pair into ERR.
  void complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                bool solicited) noexcept;
  void complete_flushed(QueuePair& qp, CompletionQueue& cq, uint64_t id, WorkType type) noexcept;

  // Completions name peers by numbers from here on; each engine of a device has its own range.
  uint32_t first_peer() const noexcept { return port_.qpn_range().first & ~0xFFFFu; }
  QpNum endpoint() const noexcept { return QpNum{qpn_prefix << 16}; }
  const Gid& address_of(const Peer& peer, uint8_t remote) const noexcept {
    WEFT_DCHECK(remote == 0 || (peer.rails != nullptr && remote <= peer.rails->further().size()));
    return remote == 0 ? peer.address : peer.rails->further()[remote - 1u];
  }
  // `path` counts the source ports of the first route, then those of the next.
  Route route_of(const Peer& peer, uint32_t path) const noexcept {
    const uint32_t ports = frame_paths.ports_per_address();
    return path < ports ? Route{} : peer.rails->route(path / ports);
  }

  // Of a frame to `peer` by `route`, from that source port.
  const Path& path_to(const Peer& peer, const Route& route, uint16_t source_port,
                      uint8_t traffic_class) noexcept {
    return frame_paths.of(address_of(peer, route.remote), route.local, source_port, traffic_class,
                          peer.in_memory && route.remote == 0);
  }

  const Config config;
  uint32_t qpn_prefix = 0;  // top 8 bits of our QPNs
  uint32_t mtu = 0;
  bool uses_rails = false;  // this endpoint or a peer has several addresses
  Instant now;              // of the current call
  FramePaths frame_paths;
  Incarnations incarnations;
  base::TimerWheel wheel;
  QpTable<QueuePair> queue_pairs;
  base::Permutation qp_numbers;  // low 16 bits of new QPNs
  uint32_t qp_numbers_drawn = 0;
  base::Line<Peer, &Peer::active> active;  // peers with something to send
};

}  // namespace weft::srd
