// SPDX-License-Identifier: BSD-3-Clause
// See names.hpp.
#include "lib/collective/plan/names.hpp"

namespace weft::collective {

Result<Collective> parse_collective(std::string_view word) {
  return parse_name(word, Collective::barrier, "operation");
}

Result<DataType> parse_type(std::string_view word) {
  return parse_name(word, DataType::mxfp8_e5m2, "type");
}

Result<ReduceOp> parse_reduction(std::string_view word) {
  return parse_name(word, ReduceOp::avg, "reduction");
}

bool is_per_rank(Collective collective) noexcept {
  return collective != Collective::all_reduce && collective != Collective::broadcast &&
         collective != Collective::reduce && collective < Collective::exchange;
}

double bus_factor(Collective collective, uint32_t ranks) noexcept {
  const double others = (ranks - 1.0) / ranks;
  if (collective == Collective::all_reduce) return 2 * others;
  return is_per_rank(collective) ? others : 1;
}

}  // namespace weft::collective
