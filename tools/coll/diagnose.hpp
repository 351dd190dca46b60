// SPDX-License-Identifier: BSD-3-Clause
// Diagnoses a job from the dumps of all ranks: the first call that differs, ranks that did not make
// a call, the straggler, the slow link.
#pragma once

#include "tools/coll/dumps.hpp"

namespace weft::bench {

// A call, and the ranks that made it.
struct RanksOfCall {
  std::string call;
  std::vector<uint32_t> ranks;
};

struct Mismatch {
  uint64_t sequence = 0;
  std::vector<RanksOfCall> calls;  // sorted: fewest ranks first
};

// An operation that some ranks have entered and others have not called.
struct MissingCall {
  uint64_t sequence = 0;
  std::string call;
  std::vector<uint32_t> entered, not_called;
};

// The rank that calls last most of the time. Its delay in an operation is the time from the median
// rank's call to the last rank's call.
struct Straggler {
  uint32_t rank = 0;
  uint64_t times = 0, operations = 0;  // how often it was last, of how many operations
  int64_t total_ns = 0, median_ns = 0;
  double share = 0;   // total delay / total time of the operations
  bool late = false;  // `share` is large enough to report
};

// The transfer time of a piece runs from its send, or from the receiver's start of the operation if
// that is later, to its receipt.
struct SlowLink {
  uint32_t from = 0, to = 0;
  uint64_t pieces = 0;
  uint32_t bytes = 0;                    // of the median piece
  int64_t median_ns = 0, others_ns = 0;  // the median of the other links' medians
  bool slow = false;
};

struct Diagnosis {
  std::string communicator;
  uint32_t ranks = 0;
  std::vector<uint32_t> missing;                             // ranks without a dump
  std::vector<std::string> unknown_clocks;                   // hosts whose clock offset is unknown
  std::vector<std::pair<uint32_t, DumpedFailure>> failures;  // by reporting rank
  std::optional<Mismatch> mismatch;
  std::optional<MissingCall> missing_call;
  std::optional<Straggler> straggler;
  std::optional<SlowLink> link;
};

// Errors: invalid_argument (dumps of different communicators, or two dumps of one rank).
Result<Diagnosis> diagnose(std::vector<Dump> dumps);

// `weft_coll merge`: exit code 0, or 2 if the dumps cannot be read.
int merge_dumps(const std::vector<std::string>& files, bool json);

}  // namespace weft::bench
