// SPDX-License-Identifier: BSD-3-Clause
// The measurements themselves: one call measures one message size on an open session. Both sides
// call the same functions in the same order.
#pragma once

#include <cstdint>

#include "bench/perftest/session.hpp"
#include "bench/perftest/stats.hpp"
#include "bench/perftest/streams.hpp"

namespace weft::bench {

struct SizeResult {
  uint64_t size = 0;
  bool measured = false;  // this side has results to print
  BandwidthSummary bandwidth;
  LatencySummary latency;
  uint64_t lost = 0;            // UD, UC: messages that did not arrive, in both directions
  uint64_t verified_bytes = 0;  // with --data_validation, by either side
  uint64_t mismatches = 0;      // bytes, of both sides
};

// A line on the terminal for runs that take longer than two seconds.
class Progress {
 public:
  Progress(uint64_t size, const Options& options);
  ~Progress();
  void update(uint64_t done) noexcept;

 private:
  uint64_t size_;
  uint64_t goal_;
  double duration_s_;
  uint64_t start_ns_;
  uint64_t next_ns_;
  bool terminal_;
  bool shown_ = false;
};

// `receiver` is primed and lives as long as the session; null without SEND.
Result<SizeResult> run_bandwidth(Session& session, uint64_t size, Receiver* receiver);
Result<SizeResult> run_latency(Session& session, uint64_t size, Receiver* receiver);
// Moves data in rounds in which every buffer is filled, moved and compared. For *_bw.
Result<SizeResult> run_validation(Session& session, uint64_t size);

// Exchanges the verified and the wrong bytes of both sides, and adds their sums to `result`.
Result<SizeResult> with_verification(Control& control, SizeResult result, uint64_t verified_bytes,
                                     uint64_t mismatches);

// The test pattern: byte `offset` of message `index` in direction `from_server`.
void fill_pattern(std::byte* at, uint64_t size, uint64_t index, bool from_server) noexcept;
// The number of bytes that differ from the pattern.
uint64_t compare_pattern(const std::byte* at, uint64_t size, uint64_t index,
                         bool from_server) noexcept;

}  // namespace weft::bench
