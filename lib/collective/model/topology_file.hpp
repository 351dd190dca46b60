// SPDX-License-Identifier: BSD-3-Clause
// Reads topologies from TOML files; scenarios/collectives has files for known products.
#pragma once

#include <string>
#include <vector>

#include "lib/collective/model/topology.hpp"
#include "weft/result.hpp"

namespace weft::collective {

// `name` is a file, or the name (without .toml) of one in collectives/ of the scenarios that come
// with weft (lib/base/installed/scenario_file.hpp). Errors: not_found, invalid_argument (the
// message has the line), not_supported (built without toml++).
Result<Topology> read_topology(const std::string& name);

// The names to pass to read_topology(): `name` itself, or all files NAME-*.toml there, sorted, for
// a product whose sources disagree or that has variants ("trn3-nl72x2").
std::vector<std::string> topology_profiles(const std::string& name);

}  // namespace weft::collective
