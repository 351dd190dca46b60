// SPDX-License-Identifier: BSD-3-Clause
// A lane: one queue pair of a connection with its completion queue, on one device. A connection has
// a lane for each member of a virtual device, else one. The queue pair belongs to one connection;
// on SRD its default destination is the peer's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/adapters/nccl/devices.hpp"
#include "lib/adapters/nccl/messages.hpp"
#include "weft/qp.hpp"

namespace weft::nccl {

struct Lane {
  std::shared_ptr<OpenDevice> device;
  CompletionQueue cq;
  QueuePair qp;
  Psn psn;               // of our first request
  uint32_t posted = 0;   // receives in the queue
  uint32_t needed = 0;   // of them: for WRITEs of the peer that may still arrive
  uint32_t sending = 0;  // requests in the send queue
  LaneAddress peer;
  std::optional<uint32_t> peer_number;  // Completion::source_peer of the peer, once it is known

  // Whether the message of a receive's completion is the peer's. To a queue pair of SRD any sender
  // can send.
  bool is_from_peer(const Completion& received);
};

struct QueueSizes {
  uint32_t sends = 0, receives = 0;
};

// The lanes of a connection on `device`, in INIT: receives may be posted. Errors: those of the
// objects.
Result<std::vector<Lane>> create_lanes(const NetDevice& device, const QueueSizes& sizes);
// To RTS, towards the peer's queue pairs; lanes that the peer does not have are dropped. Errors:
// busy (`roce`: the limit on reconnections after key violations): call again with the same
// arguments; those of QueuePair::modify().
Result<void> connect_lanes(std::vector<Lane>& lanes, const std::vector<LaneAddress>& peer,
                           uint8_t traffic_class);
// What the peer is told about them.
std::vector<LaneAddress> addresses_of(const std::vector<Lane>& lanes);
// Posts receives (without memory: for WRITEs with immediate data) until `needed` are in the queue.
Result<void> top_up(Lane& lane);

// A number that cannot be guessed. Error: io_error.
Result<uint64_t> random_number();

}  // namespace weft::nccl
