// SPDX-License-Identifier: BSD-3-Clause
// Networks and workloads of shared objects (weft/simulation.hpp), which a scenario names by their
// path.
#pragma once

#include "lib/base/random.hpp"
#include "lib/sim/scenario/section.hpp"
#include "lib/sim/scenario/workload.hpp"

namespace weft::sim::scenario {

// The network that the object `path` builds from the keys of the section.
Result<fabric::Topology> build_by_plugin(const std::string& path, Reader& reader, Section& section);

// The flows that the object `path` generates. Empty after an error.
FlowList generate_by_plugin(const std::string& path, Reader& reader, Section& section,
                            const fabric::Topology& topology, base::Random& random);

}  // namespace weft::sim::scenario
