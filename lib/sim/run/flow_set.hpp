// SPDX-License-Identifier: BSD-3-Clause
// What the run loop leaves to others: paths and data classes of all flows before the run, the
// validation of jobs, their times after it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/sim/fabric/routes.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/run/simulation.hpp"
#include "lib/sim/scheme/scheme.hpp"

namespace weft::sim::flow {

// An error of flow number `row`, which messages count from 1 on.
Error row_error(size_t row, const std::string& text);

// Paths for all flows: ports count up per pair of hosts in the order of the list (HPCC simulator).
Result<void> choose_paths(std::span<const FlowSpec> flows, fabric::RouteTable& routes);

// The class of each flow; empty if all have the same: classes are used only where flows differ.
Result<std::vector<uint8_t>> classes_of(std::span<const FlowSpec> flows, const Scheme& scheme);

// Fails on tasks that do not fit the flows or the hosts.
Result<void> check_job(const TaskGraph& tasks, std::span<const FlowSpec> flows,
                       const Scheme& scheme);
// After the run: the times of all tasks, and of flows that carry messages when they started.
void take_task_times(const TaskGraph& graph, const std::vector<TaskTimes>& times,
                     RunResult& result);

}  // namespace weft::sim::flow
