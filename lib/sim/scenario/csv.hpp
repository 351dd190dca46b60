// SPDX-License-Identifier: BSD-3-Clause
// Networks and flow lists from CSV files. Columns are found by their names in the first line, in
// any order; other columns and lines that begin with # are ignored. An error names the file, the
// line, the column and the reason.
#pragma once

#include <string>
#include <vector>

#include "lib/sim/fabric/link_changes.hpp"
#include "lib/sim/fabric/topology.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/tasks/task_graph.hpp"
#include "weft/result.hpp"

namespace weft::sim::scenario {

// node_a,node_b,gbps,delay_ns: one row per full-duplex link.
Result<fabric::Topology> read_topology(const std::string& file);

// from,to,gbps: one row per direction of a link that runs at that rate instead.
Result<void> read_degraded(const std::string& file, fabric::Topology& topology);

// at_ns,from,to and, if there, state (up or down), gbps, loss (a share) and both (0: rate and loss
// of this direction only): what happens to links. An empty field leaves that as it is.
Result<std::vector<fabric::LinkChange>> read_link_changes(const std::string& file);

// start_ns,src,dst,bytes and, if there, sport and dport (of the ECMP hash key; dport is 100 if
// empty), class (1..7; 3 if empty) and path (node ids joined by -).
//
// Flows may wait for others: after (rows of this file, counted from 0, joined by -) and think_ns. A
// flow then starts think_ns after the last byte of all of these has arrived, and not before
// start_ns. With one of these columns every flow is a message of its own in `tasks`.
struct FlowRows {
  std::vector<flow::FlowSpec> flows;
  flow::TaskGraph tasks;  // empty without after and think_ns
  // Appends the flows and tasks of another list.
  void add(FlowRows&& more);
};
Result<FlowRows> read_flows(const std::string& file);

// size_bytes,cdf_percent: a flow-size distribution.
struct SizePoint {
  double bytes;
  double percent;
};
Result<std::vector<SizePoint>> read_sizes(const std::string& file);

}  // namespace weft::sim::scenario
