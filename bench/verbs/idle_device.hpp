// SPDX-License-Identifier: BSD-3-Clause
// What a test may ask of the library idle_verbs besides what libibverbs has.
#pragma once

#include <cstdint>

// A request as the device was told it, by whichever calls.
struct Posted {
  uint64_t id = 0, remote = 0, compare_add = 0, swap = 0;
  int opcode = -1;  // ibv_wr_opcode
  uint32_t flags = 0, rkey = 0, immediate_or_key = 0, qpn = 0, qkey = 0;
  uint32_t entries = 0, bytes = 0;
  bool is_inline = false, has_handle = false;
  bool by_list = false;
  bool operator==(const Posted&) const = default;
};

extern "C" {
// Whether queue pairs that are made from now on can be posted to by ibv_wr_*.
void idle_have_extended(bool have);
// Where requests from now on are written down, each over the one before; null: nowhere.
void idle_record(Posted* posted);
}
