// SPDX-License-Identifier: BSD-3-Clause
// Prints the state of a process as text and as Prometheus metrics.
#pragma once

#include "tools/stat/process.hpp"

namespace weft::stat {

// Adds rates from two snapshots: "per_second" of counters, "sent_per_second" and "acked_per_second"
// of queue pairs and peers.
void add_rates(Json& now, const Json& before);

void print_text(const Json& snapshot);
// The text exposition format, version 0.0.4.
void print_prometheus(const Json& snapshot);

}  // namespace weft::stat
