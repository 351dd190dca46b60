// SPDX-License-Identifier: BSD-3-Clause
// The state of processes as text and as Prometheus metrics.
#pragma once

#include <string>
#include <vector>

#include "tools/stat/process.hpp"

namespace weft::stat {

// Adds rates from two snapshots: "per_second" of counters, "sent_per_second" and "acked_per_second"
// of queue pairs and peers.
void add_rates(Json& now, const Json& before);

void print_text(const Json& snapshot);
// Snapshots of processes as metrics: the text exposition format, version 0.0.4.
std::string prometheus(const std::vector<Json>& snapshots);

}  // namespace weft::stat
