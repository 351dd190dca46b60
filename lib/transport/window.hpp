// SPDX-License-Identifier: BSD-3-Clause
// The window of bytes in flight to one destination, when no congestion controller is configured. It
// starts at the port's in_flight_limit, halves at a loss (at most once per window of data) and
// grows additively.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/check.hpp"

namespace weft::transport {

struct Window {
  uint64_t in_flight = 0;  // bytes sent, or requested by READs, and neither acknowledged nor lost
  uint64_t size = 0;
  uint64_t limit = 0;         // largest size
  uint64_t floor = 0;         // smallest
  uint64_t until_growth = 0;  // bytes to be acknowledged before the next growth
  uint64_t until_cut = 0;     // bytes to be acknowledged before the next cut may happen

  static Window of(uint64_t absorbed) {
    constexpr uint64_t kLeast = 16384;
    Window window;
    window.limit = window.size = std::max(absorbed, kLeast);
    window.floor = kLeast;
    window.check_invariants();
    return window;
  }

  bool open() const { return in_flight < size; }
  void on_sent(uint64_t bytes) { in_flight += bytes; }
  // Removes bytes that will not be acknowledged: rewound, flushed or considered lost.
  void forget(uint64_t bytes) { in_flight -= std::min(in_flight, bytes); }

  void on_acknowledged(uint64_t bytes) {
    forget(bytes);
    until_cut -= std::min(until_cut, bytes);
    if (size >= limit) return;
    if (bytes < until_growth) {
      until_growth -= bytes;
      return;
    }
    size = std::min(limit, size + limit / 16);
    until_growth = size;
    check_invariants();
  }

  void on_loss() {
    if (until_cut != 0) return;
    until_cut = std::max<uint64_t>(in_flight, 1);
    size = std::max(floor, size / 2);
    until_growth = size;
    check_invariants();
  }

  // Asserts the bounds of the window and of its counters.
  void check_invariants() const {
    if constexpr (!base::kChecksInvariants) return;
    WEFT_DCHECK(floor <= size && size <= limit);
    WEFT_DCHECK(until_growth <= limit);
  }
};

}  // namespace weft::transport
