// SPDX-License-Identifier: BSD-3-Clause
// The requests that are missing at a responder whose peer repeats selectively: which of them are
// lost, and which may only be late. Behind a path that keeps the order, what is missing before
// three that arrived is lost (as RFC 8985 has it). Behind one that does not, and before the last
// ones, what is missing before a request that arrived a NAK delay ago is. One time is kept, not one
// for each request: `seen_end` of the moment when the delay began becomes `lost_end` when it is
// over, and the delay begins anew; so a loss is known after one to two delays.
#pragma once

#include <array>

#include "lib/base/check.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce {

struct Holes {
  Psn lost_end;                           // requests missing before it are lost
  Psn seen_end;                           // behind the furthest request that arrived
  Psn next_end;                           // becomes lost_end
  Instant advance_at = Instant::never();  // then; never(): nothing newer arrived
  std::array<Psn, 3> newest;              // the furthest requests that arrived, furthest first

  // The request `expected` is missing.
  void open(Psn expected) noexcept {
    lost_end = seen_end = next_end = expected;
    newest.fill(expected);
    advance_at = Instant::never();
  }
  // The request [psn, end) arrived. `in_order`: the path keeps the order, as far as is known.
  void on_early(Psn psn, Psn end, Instant now, Duration delay, bool in_order) noexcept {
    if (end - seen_end > 0) {
      seen_end = end;
      newest = {psn, newest[0], newest[1]};
    }
    if (in_order && newest[2] - lost_end > 0) {
      lost_end = newest[2];
      if (lost_end - next_end >= 0) {
        next_end = lost_end;
        advance_at = Instant::never();
      }
    }
    if (seen_end - next_end > 0 && advance_at.is_never()) begin(now, delay);
  }
  // True if lost_end advances now.
  bool advance(Instant now, Duration delay) noexcept {
    if (now < advance_at) return false;
    WEFT_DCHECK(next_end - lost_end > 0);
    lost_end = next_end;
    advance_at = Instant::never();
    if (seen_end - lost_end > 0) begin(now, delay);
    return true;
  }
  bool lost(Psn psn) const noexcept { return lost_end - psn > 0; }

 private:
  void begin(Instant now, Duration delay) noexcept {
    next_end = seen_end;
    advance_at = now + delay;
  }
};

}  // namespace weft::roce
