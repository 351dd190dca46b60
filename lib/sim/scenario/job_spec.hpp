// SPDX-License-Identifier: BSD-3-Clause
// A job as a scenario describes it: a collective operation that some hosts repeat, perhaps between
// computations. What it sends is decided outside lib/sim, which knows no collectives (lib/job).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::sim::scenario {

struct JobSpec {
  std::string name;
  std::string operation;  // as `weft_coll` names it: all_reduce
  std::string algorithm;  // ring, direct ...; empty: by size
  std::string type = "fp32";
  std::string reduction = "sum";
  uint64_t bytes = 0;  // of the larger buffer of a rank
  uint32_t root = 0;
  // Host nodes, `nics` of them for rank 0, then for rank 1: each is a NIC of its rank, and the i-th
  // NIC sends to the i-th ones of the other ranks, an equal part of each message.
  std::vector<uint32_t> hosts;
  uint32_t nics = 1;
  int64_t start_ns = 0;
  uint32_t steps = 1;      // repetitions, one after the other
  int64_t compute_ns = 0;  // of each rank, in each step
  // Parts of the buffer: the computation of a part precedes its operation, and the next part is
  // computed meanwhile. With 1 the whole operation follows the whole computation.
  uint32_t buckets = 1;
  uint8_t data_class = 3;
  std::string place;  // of its table, for messages: "file.toml:12"
};

}  // namespace weft::sim::scenario
