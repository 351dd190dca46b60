// SPDX-License-Identifier: BSD-3-Clause
// NCCL's types and reductions as weft's, and the multiplication of ncclRedOpCreatePreMulSum().
#pragma once

#include <cstddef>
#include <optional>

#include "lib/adapters/ccl/communicator.hpp"

namespace weft::ccl {

// Error: invalid_argument.
Result<DataType> type_of(ncclDataType_t type);

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  std::optional<Factor> factor = {};
};
// Errors: invalid_argument (no such reduction, or not for this type).
Result<Reduction> reduction_of(ncclRedOp_t op, DataType type, Comm& comm);

// to = factor * from, rounded to the type. Integers wrap.
void multiply(const Factor& factor, const void* from, std::byte* to, size_t count);

}  // namespace weft::ccl
