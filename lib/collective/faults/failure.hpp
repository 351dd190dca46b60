// SPDX-License-Identifier: BSD-3-Clause
// Failures of a communicator: how one is described, announced to the peers, and when the memory of
// the failed calls may be returned to its owner. Functions that detect a failure return a
// FailureReport; the team applies the first one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/collective/run/link.hpp"
#include "weft/collective.hpp"

namespace weft::collective {

struct FailureReport {
  Code code = Code::ok;
  uint32_t rank = 0;  // that failed, differs or is late
  Call call;          // that is given up
  std::string reason;
  std::optional<uint32_t> reporter;  // the rank that announced it; none: this rank detected it
};

// "rank 3", "ranks 1, 2"
std::string ranks_text(const std::vector<uint32_t>& ranks);

// With the text that users see.
Failure describe_failure(const FailureReport& report);

// What follows a failure: all peers are sent an abort, so that a rank which sees this one leave
// knows the reason; pieces in flight may still be read from the memory of calls, and peers may
// still write to it.
class Teardown {
 public:
  using Links = std::span<const std::unique_ptr<Link>>;

  // Sends the abort, also for a failure that a peer announced. The link of a peer that failed is
  // aborted. `peers_write`: to memory that was advertised.
  void begin(const FailureReport& report, Links links, bool peers_write);
  // The limits of memory_unused() count from here.
  void start_timers(Instant now);
  // No link reads the calls' memory, and the peers that may write to it know of the failure: a peer
  // that found it closed before would take this rank for failed. Ends after 200 ms in any case.
  bool memory_unused(Links links, Instant now);
  const ControlMessage& abort() const { return abort_; }

 private:
  ControlMessage abort_;
  bool peers_write_ = false;
  Instant abort_links_at_;  // that still read memory
  Instant give_up_at_;      // peers that do not acknowledge the abort
};

}  // namespace weft::collective
