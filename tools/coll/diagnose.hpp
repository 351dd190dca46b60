// SPDX-License-Identifier: BSD-3-Clause
// What the dumps of all ranks say together: the first call that differs, who has not come, who is
// late, which link is slow.
#pragma once

#include "tools/coll/dumps.hpp"

namespace weft::bench {

// The same call, and the ranks that made it.
struct Party {
  std::string call;
  std::vector<uint32_t> ranks;
};

struct Mismatch {
  uint64_t sequence = 0;
  std::vector<Party> parties;  // the fewest ranks first
};

// An operation that some ranks are in and others have not called.
struct Absence {
  uint64_t sequence = 0;
  std::string call;
  std::vector<uint32_t> inside, absent;
};

// The rank that calls after the others. An operation counts with the time from the median rank's
// call to its last.
struct LateRank {
  uint32_t rank = 0;
  uint64_t times = 0, operations = 0;  // it was the last, of so many
  int64_t total_ns = 0, median_ns = 0;
  double share = 0;  // of the time of all these operations
  bool late = false;
};

// A piece's way takes from its sending, or the receiver's beginning if that is later, to its
// receiving.
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
  std::vector<uint32_t> missing;                             // no dump of them
  std::vector<std::string> unknown_clocks;                   // hosts
  std::vector<std::pair<uint32_t, DumpedFailure>> failures;  // by rank that tells
  std::optional<Mismatch> mismatch;
  std::optional<Absence> absence;
  std::optional<LateRank> late;
  std::optional<SlowLink> link;
};

// Errors: invalid_argument (dumps of different communicators, two of one rank).
Result<Diagnosis> diagnose(std::vector<Dump> dumps);

// `weft_coll merge`: exit code 0, or 2 if the dumps cannot be read.
int merge_dumps(const std::vector<std::string>& files, bool json);

}  // namespace weft::bench
