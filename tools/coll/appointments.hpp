// SPDX-License-Identifier: BSD-3-Clause
// Calls that begin at the same time on all ranks of one host, a while apart, as those of a program
// that computes in between: the ranks agree on the time of the first by the host's clock.
#pragma once

#include "weft/collective.hpp"

namespace weft::bench {

class Appointments {
 public:
  // None if `every_us` is 0.
  Appointments(Communicator& group, uint32_t every_us) : group_(group), every_us_(every_us) {}

  // Rank 0 says when; all ranks call it.
  Result<void> make();
  // Makes progress until it is time for the next call. Says how late it is by then.
  Duration keep();

 private:
  Communicator& group_;
  int64_t every_us_;
  int64_t next_ns_ = 0;
};

}  // namespace weft::bench
