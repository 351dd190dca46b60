// SPDX-License-Identifier: BSD-3-Clause
// What all queue pairs to one address share: the bound on bytes in flight, so that go-back-N cannot
// collapse in the receiver's socket buffer however many queue pairs there are (DESIGN.md section
// 2). The window starts at what the port says the receiver absorbs, halves at a loss (at most once
// per round trip of data) and grows back additively. Queue pairs that find it full wait in line.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weft/types.hpp"

namespace weft::engine {

struct QueuePair;

struct Destination {
  Gid address;
  uint32_t users = 0;      // queue pairs that point here
  uint64_t in_flight = 0;  // bytes sent or asked for, not yet acknowledged
  uint64_t window = 0;
  uint32_t packet_overhead = 0;  // what a packet takes of the window besides its payload
  uint64_t limit = 0;            // largest window
  uint64_t floor = 0;            // smallest
  uint64_t until_growth = 0;     // bytes to be acknowledged before the next growth
  uint64_t until_cut = 0;        // bytes to be acknowledged before the next cut may happen
  QueuePair* waiting_head = nullptr;
  QueuePair* waiting_tail = nullptr;

  bool open() const { return in_flight < window; }

  void on_acknowledged(uint64_t bytes) {
    in_flight -= std::min(in_flight, bytes);
    until_cut -= std::min(until_cut, bytes);
    if (window >= limit) return;
    if (bytes < until_growth) {
      until_growth -= bytes;
      return;
    }
    window = std::min(limit, window + limit / 16);
    until_growth = window;
  }

  void on_loss() {
    if (until_cut != 0) return;
    until_cut = std::max<uint64_t>(in_flight, 1);
    window = std::max(floor, window / 2);
    until_growth = window;
  }

  // Bytes that will never be acknowledged: rewound or flushed.
  void forget(uint64_t bytes) { in_flight -= std::min(in_flight, bytes); }
};

}  // namespace weft::engine
