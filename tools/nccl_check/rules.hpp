// SPDX-License-Identifier: BSD-3-Clause
// The rules of network plug-ins of NCCL, as NCCL describes and uses them (plugins/net), each a
// function that runs in every rank at once.
#pragma once

#include <string>
#include <vector>

#include "tools/nccl_check/rank.hpp"

namespace weft::nccl_check {

struct Rule {
  const char* name;
  const char* text;  // what must hold
  void (*run)(Rank&);
  bool kills_last_rank = false;
  // Names and units of RankRecord::figures of rank 0.
  std::vector<std::pair<const char*, const char*>> figures;
};

const std::vector<Rule>& all_rules();

// Connections: rules_connect.cpp.
void check_devices(Rank& rank);
void check_connect(Rank& rank);
void check_connections(Rank& rank);
void check_virtual(Rank& rank);
void check_close(Rank& rank);
void check_death(Rank& rank);
// Data: rules_data.cpp, rules_order.cpp.
void check_sizes(Rank& rank);
void check_alignment(Rank& rank);
void check_zero(Rank& rank);
void check_order(Rank& rank);
void check_groups(Rank& rank);
void check_early_send(Rank& rank);
void check_full(Rank& rank);
// Memory: rules_memory.cpp.
void check_registration(Rank& rank);
void check_remapped(Rank& rank);
void check_flush(Rank& rank);
void check_optional(Rank& rank);
// collectives.cpp, speed.cpp
void check_all_reduce(Rank& rank);
void check_all_to_all(Rank& rank);
void measure(Rank& rank);

}  // namespace weft::nccl_check
