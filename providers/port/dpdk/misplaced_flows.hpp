// SPDX-License-Identifier: BSD-3-Clause
// Counts flows that arrive on a queue whose engine does not own their queue pair. One table per
// queue, used by that queue's engine only, for frames that it hands over.
#pragma once

#include <array>
#include <cstdint>

#include "weft/types.hpp"

namespace weft::port::dpdk {

// What a flow rule matches. `source` is the peer.
struct Flow {
  Gid source, destination;
  uint16_t source_port = 0, destination_port = 0;
  bool operator==(const Flow&) const = default;
};

class MisplacedFlows {
 public:
  static constexpr uint32_t kFirstThreshold = 64;  // frames that justify a rule
  static constexpr uint32_t kMaxThreshold = 1u << 20;

  // Counts a frame of `flow`, for `engine`. True: request a rule now, after kFirstThreshold
  // frames, and where that did not help after twice as many each time, kMaxThreshold at last.
  bool count(const Flow& flow, uint16_t engine) noexcept {
    Entry& entry = entries_[index_of(flow)];
    if (entry.flow != flow || entry.engine != engine) {
      if (entry.frames != 0 && --entry.frames != 0) return false;  // the busiest flow has the place
      entry = {flow, engine, 0, kFirstThreshold};
    }
    if (++entry.frames < entry.threshold) return false;
    entry.frames = 0;
    entry.threshold = entry.threshold >= kMaxThreshold ? kMaxThreshold : 2 * entry.threshold;
    return true;
  }

 private:
  struct Entry {
    Flow flow;
    uint16_t engine = 0;
    uint32_t frames = 0, threshold = kFirstThreshold;
  };
  static constexpr unsigned kIndexBits = 8;

  // Fibonacci hashing of what differs most: the ports and the end of the peer's address.
  static size_t index_of(const Flow& flow) noexcept {
    const uint32_t ports = static_cast<uint32_t>(flow.source_port) << 16 | flow.destination_port;
    uint32_t peer = 0;
    for (size_t i = 12; i < 16; ++i) peer = peer << 8 | flow.source.bytes[i];
    const uint64_t mixed = (static_cast<uint64_t>(peer) << 32 | ports) * 0x9E37'79B9'7F4A'7C15u;
    return mixed >> (64 - kIndexBits);
  }

  std::array<Entry, 1u << kIndexBits> entries_{};
};

}  // namespace weft::port::dpdk
