// SPDX-License-Identifier: BSD-3-Clause
// The arithmetic of one (type, operation): reducing, widening into accumulators and rounding back.
// Chosen once per call; the functions run over whole pieces and take unaligned memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/collective_types.hpp"

namespace weft::collective {

struct Arithmetic {
  size_t element = 0;      // bytes
  size_t accumulator = 0;  // bytes
  bool exact = true;       // accumulators are elements

  // target = a reduced with b, all of accumulators. Two of the three may be the same memory.
  // The index says whether a and b are accumulators: [a][b].
  void (*reduce[2][2])(std::byte* target, const std::byte* a, const std::byte* b,
                       size_t count) = {};
  // Elements to accumulators. Null if exact.
  void (*widen)(std::byte* target, const std::byte* source, size_t count) = nullptr;
  // Accumulators to elements, divided by `divisor` unless that is 1. May be in place if exact.
  void (*finish)(std::byte* target, const std::byte* source, size_t count,
                 uint32_t divisor) = nullptr;
  // accumulators += weight * elements, the product rounded before it is added. Null for integers.
  void (*add_weighted)(std::byte* accumulators, const std::byte* elements, float weight,
                       size_t count) = nullptr;
};

// The fastest version for this processor, or the portable one: the bits are the same.
Arithmetic arithmetic_of(DataType type, ReduceOp op, bool portable = false) noexcept;

}  // namespace weft::collective
