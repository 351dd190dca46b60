// SPDX-License-Identifier: BSD-3-Clause
// Which flows keep coming to a queue whose engine does not have their queue pair. One table for
// each queue, touched by that queue's engine alone, and only for frames that it hands over anyway.
#pragma once

#include <array>
#include <cstdint>

#include "weft/types.hpp"

namespace weft::port::dpdk {

// What a device tells the packets of two queue pairs apart by. `source` is the peer.
struct Flow {
  Gid source, destination;
  uint16_t source_port = 0, destination_port = 0;
  bool operator==(const Flow&) const = default;
};

class MisplacedFlows {
 public:
  static constexpr uint32_t kEnough = 64;  // frames that make a rule worth its price
  static constexpr uint32_t kMost = 1u << 20;

  // One more frame of `flow`, for `engine`. True: it is time to ask for a rule, after kEnough
  // frames, and where that did not help after twice as many each time, kMost at last.
  bool count(const Flow& flow, uint16_t engine) noexcept {
    Entry& entry = entries_[index_of(flow)];
    if (entry.flow != flow || entry.engine != engine) {
      if (entry.frames != 0 && --entry.frames != 0) return false;  // the busiest flow has the place
      entry = {flow, engine, 0, kEnough};
    }
    if (++entry.frames < entry.wanted) return false;
    entry.frames = 0;
    entry.wanted = entry.wanted >= kMost ? kMost : 2 * entry.wanted;
    return true;
  }

 private:
  struct Entry {
    Flow flow;
    uint16_t engine = 0;
    uint32_t frames = 0, wanted = kEnough;
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
