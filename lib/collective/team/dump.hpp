// SPDX-License-Identifier: BSD-3-Clause
// The state of a rank as text: a dump, which `weft_coll merge` compares with those of the other
// ranks, and metrics for Prometheus.
#pragma once

#include <string>

namespace weft::collective {

class Team;

std::string dump(const Team& team);
std::string prometheus(const Team& team);
// To the file that the options, or WEFT_COLLECTIVE_DUMP, name. Errors are ignored.
void write_dump(const Team& team);

}  // namespace weft::collective
