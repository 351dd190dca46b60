// SPDX-License-Identifier: BSD-3-Clause
// Test data with known results: element i of a rank is a small integer derived from the seed, so
// sums, products and averages are exact in every type, and every wrong bit is detected.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/collective/plan/schedule.hpp"
#include "tools/coll/options.hpp"

namespace weft::bench {

// Element i of a rank's data.
double element(const CollOptions& options, uint32_t rank, uint64_t i);
// encode() writes an element, is_value() compares one.
void encode(DataType type, double value, std::byte* at);
bool is_value(DataType type, double value, const std::byte* at);

// The shape of a call of `count`. In the _v forms `count` is the mean block size; blocks have 0 to
// 2 * count elements, and every rank the same total.
collective::Shape shape_of(const CollOptions& options, uint32_t ranks, uint64_t count);

void fill_input(const CollOptions& options, uint32_t ranks, uint32_t rank, uint64_t count,
                std::byte* input);
// The number of wrong elements in a rank's output.
uint64_t count_wrong(const CollOptions& options, uint32_t ranks, uint32_t rank, uint64_t count,
                     const std::byte* output);
// Elements of a rank's buffers for calls of `count`.
uint64_t input_elements(const CollOptions& options, uint32_t ranks, uint32_t rank, uint64_t count);
uint64_t output_elements(const CollOptions& options, uint32_t ranks, uint32_t rank, uint64_t count);

}  // namespace weft::bench
