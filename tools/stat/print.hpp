// SPDX-License-Identifier: BSD-3-Clause
// What weft_stat shows of a process: for people, and for Prometheus.
#pragma once

#include "tools/stat/process.hpp"

namespace weft::stat {

// Adds what two looks tell together: "per_second" of counters, "sent_per_second" and
// "acked_per_second" of queue pairs and peers.
void add_rates(Json& now, const Json& before);

void print_text(const Json& look);
// The text exposition format, version 0.0.4.
void print_prometheus(const Json& look);

}  // namespace weft::stat
