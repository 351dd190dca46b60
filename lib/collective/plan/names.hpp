// SPDX-License-Identifier: BSD-3-Clause
// Operations, types and reductions by their names, and what an operation does to a buffer: what
// programs that are told an operation in words need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/collective_types.hpp"
#include "weft/result.hpp"

namespace weft::collective {

// Of an enumeration whose values name() spells, from 0 to `last`; `what` it is, in messages. Errors
// (invalid_argument) list the known names.
template <class E>
Result<E> parse_name(std::string_view word, E last, const char* what) {
  std::string known;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const std::string_view candidate = name(static_cast<E>(i));
    if (candidate == word) return static_cast<E>(i);
    known += (i == 0 ? "" : ", ") + std::string(candidate);
  }
  return Error{Code::invalid_argument,
               "no " + std::string(what) + " '" + std::string(word) + "'; there are: " + known};
}
Result<Collective> parse_collective(std::string_view word);
Result<DataType> parse_type(std::string_view word);
Result<ReduceOp> parse_reduction(std::string_view word);

// True if the larger buffer has `count` elements per rank, not `count` in all.
bool is_per_rank(Collective collective) noexcept;
// Bus bandwidth / algorithm bandwidth, as nccl-tests define them: the bytes that cross the links of
// a rank, relative to the larger buffer.
double bus_factor(Collective collective, uint32_t ranks) noexcept;

}  // namespace weft::collective
