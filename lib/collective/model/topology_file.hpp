// SPDX-License-Identifier: BSD-3-Clause
// Topologies from TOML files; those of scenarios/collectives are the known products.
#pragma once

#include <string>
#include <vector>

#include "lib/collective/model/topology.hpp"
#include "weft/result.hpp"

namespace weft::collective {

// `name` is a file, or the name of one in scenarios/collectives below the current directory.
// Errors: not_found, invalid_argument (names the line, and keys that are not known), not_supported
// (built without toml++).
Result<Topology> read_topology(const std::string& name);

// What read_topology() takes for `name`: that itself, or all files NAME-*.toml there, in order, for
// a product whose sources disagree or that comes with several switches ("trn3-nl72x2").
std::vector<std::string> topology_profiles(const std::string& name);

}  // namespace weft::collective
