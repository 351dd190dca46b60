// SPDX-License-Identifier: BSD-3-Clause
// The digest of a run, over the end of every flow and the counters: equal for equal runs.
#pragma once

#include <cstdint>

#include "lib/sim/run/simulation.hpp"

namespace weft::sim::flow {

inline uint64_t run_digest(const RunResult& result, bool sprayed) noexcept {
  uint64_t digest = 0;
  const auto mix = [&digest](uint64_t word) {
    digest = (digest ^ word) * 0x9E3779B97F4A7C15;
    digest ^= digest >> 29;
  };
  for (const FlowResult& flow : result.flows) mix(static_cast<uint64_t>(flow.fct_ns));
  for (const uint64_t word : {result.counters.sent, result.counters.delivered,
                              result.counters.marked, result.counters.pauses, result.events})
    mix(word);
  for (const TaskTimes& task : result.tasks) mix(static_cast<uint64_t>(task.arrived_ns));
  if (sprayed) mix(result.counters.trimmed);
  return digest;
}

}  // namespace weft::sim::flow
