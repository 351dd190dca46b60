// SPDX-License-Identifier: BSD-3-Clause
// Starts calls at the same time on all ranks of one host, at a fixed interval, like a program that
// computes in between. The ranks agree on the first start by the host's monotonic clock.
#pragma once

#include "weft/collective.hpp"

namespace weft::bench {

class PacedCalls {
 public:
  // `every_us` is the interval; 0: calls follow each other without waiting.
  PacedCalls(Communicator& group, uint32_t every_us) : group_(group), every_us_(every_us) {}

  // Collective: rank 0 chooses the time of the first call.
  Result<void> start();
  // Makes progress until the next call is due. Returns how late it is then.
  Duration wait_for_next();

 private:
  Communicator& group_;
  int64_t every_us_;
  int64_t next_ns_ = 0;
};

}  // namespace weft::bench
