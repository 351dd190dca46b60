// SPDX-License-Identifier: BSD-3-Clause
// The networks of scenarios/collectives, by name.
#pragma once

#include <string>

#include "lib/collective/model/topology_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace weft::collective {

inline Topology known(const std::string& name) {
  Result<Topology> topology =
      read_topology((test::source_root() / "scenarios/collectives" / (name + ".toml")).string());
  if (!topology) FAIL(topology.error().message);
  return *topology;
}

}  // namespace weft::collective
