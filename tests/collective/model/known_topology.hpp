// SPDX-License-Identifier: BSD-3-Clause
// The networks of scenarios/collectives, by name, and any network without some of its lanes.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "lib/collective/model/lanes.hpp"
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

// `words` as for parse_dead_lanes().
inline Topology without(Topology topology, std::initializer_list<const char*> words) {
  std::vector<DeadLanes> dead;
  for (const char* const word : words) dead.push_back(*parse_dead_lanes(word));
  const Result<void> taken = remove_dead_lanes(topology, dead);
  INFO((taken ? "" : taken.error().message));
  REQUIRE(taken);
  return topology;
}

}  // namespace weft::collective
