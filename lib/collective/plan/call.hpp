// SPDX-License-Identifier: BSD-3-Clause
// The identity of one collective call. It precedes every piece of data, so ranks that made
// different calls detect the mismatch instead of waiting for each other.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "weft/collective_types.hpp"

namespace weft::collective {

struct Call {
  uint64_t sequence = 0;  // number of the call on its communicator, from 1
  uint64_t count = 0;     // elements, as in the call; of all blocks if all ranks know them
  uint64_t blocks = 0;    // hash of the block sizes
  uint32_t root = 0;
  Collective collective = Collective::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  uint8_t algorithm = 0;      // row of algorithms()
  uint8_t traffic_class = 2;  // selects the lane
  uint8_t unused[7] = {};
  // Compared for every piece: five words are faster than ten fields.
  bool operator==(const Call& other) const { return words() == other.words(); }

  using Words = std::array<uint64_t, 5>;
  Words words() const { return std::bit_cast<Words>(*this); }
};
static_assert(sizeof(Call) == 40 && std::has_unique_object_representations_v<Call>);

// "all_reduce #5 (1024 bf16, sum, ring)"
std::string describe(const Call& call);

}  // namespace weft::collective
