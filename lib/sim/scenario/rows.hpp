// SPDX-License-Identifier: BSD-3-Clause
// Links and flows that are written out in a scenario, as rows of numbers.
#pragma once

#include "lib/sim/scenario/section.hpp"
#include "lib/sim/scenario/workload.hpp"

namespace weft::sim::scenario {

// links = [[node_a, node_b, gbps, delay_ns], ...], as the columns of the CSV file.
Result<fabric::Topology> read_link_rows(Section& section);

// rows = [[start_ns, src, dst, bytes], ...]. Empty after an error.
FlowList read_flow_rows(Reader& reader, Section& section, const fabric::Topology& topology);

}  // namespace weft::sim::scenario
