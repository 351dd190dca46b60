// SPDX-License-Identifier: BSD-3-Clause
// The [[jobs]] tables of a scenario. Only for files that compile with toml++.
#pragma once

#include "lib/sim/scenario/scenario.hpp"
#include "lib/sim/scenario/section.hpp"

namespace weft::sim::scenario {

void read_job_tables(Reader& reader, const toml::table& root, Scenario& scenario);

}  // namespace weft::sim::scenario
