// SPDX-License-Identifier: BSD-3-Clause
// What of a scenario and its parameters the run loop needs.
#include "lib/sim/scenario/scenario.hpp"

namespace weft::sim::scenario {

flow::RunOptions run_options(const Scenario& scenario, const flow::Parameters& parameters,
                             uint64_t seed) {
  using flow::Net;
  flow::RunOptions options;
  options.seed = seed;
  options.sample_ns = static_cast<int64_t>(parameters[Net::sample]);
  options.queue_window_ns = static_cast<int64_t>(parameters[Net::queue_window]);
  if (!parameters.is_auto(Net::queue_until))
    options.queue_until_ns = static_cast<int64_t>(parameters[Net::queue_until]);
  options.detection_ns = static_cast<int64_t>(parameters[Net::detection]);
  options.link_changes = scenario.link_changes;
  if (!scenario.tasks.tasks.empty()) options.tasks = &scenario.tasks;
  if (scenario.until_ns) options.until_ns = *scenario.until_ns;
  return options;
}

}  // namespace weft::sim::scenario
