// SPDX-License-Identifier: BSD-3-Clause
// Why a job takes another time on the packet fabric than at flow level: from the fabric's counters
// and the paths of its connections.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/job/flow_level.hpp"

namespace weft::job {

// Times that differ by no more than this need no reason.
inline constexpr double kSameTime = 0.10;

struct Difference {
  double ratio = 0;  // packet level / flow level, of a step; 0: no step ended
  // The busiest port (sim::fabric::Topology) of those that the job may use, and its share of the
  // time that it was sending.
  uint32_t slowest_port = 0;
  double slowest_utilisation = 0;
  std::vector<std::string> reasons;  // empty within kSameTime
};

struct Compared {
  const sim::fabric::Topology& topology;
  const sim::flow::Scheme& scheme;
  std::span<const sim::flow::FlowSpec> flows;  // of the run
  const sim::flow::RunResult& result;
  uint64_t seed = 1;  // of the run: ECMP's
};
Difference difference_of(const Job& job, const JobFigures& figures, const FlowLevel& level,
                         const Compared& run);

}  // namespace weft::job
