// SPDX-License-Identifier: BSD-3-Clause
// Inputs and golden results, computed plainly on this processor.
#include "bench/coll/reference.hpp"

#include <cmath>
#include <cstring>

#include "lib/collective/float16.hpp"
#include "lib/collective/schedule.hpp"

namespace weft::bench {
namespace {

collective::Shape shape_of(const CollOptions& o, uint32_t ranks, uint64_t count) {
  return {.collective = o.collective, .ranks = ranks, .root = o.root, .count = count};
}

double element(const CollOptions& o, uint32_t rank, uint64_t i) {
  uint64_t bits = o.seed + i * 0x9E3779B97F4A7C15 + rank * 0xC2B2AE3D27D4EB4F;
  bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9 >> 40;
  if (o.op == ReduceOp::prod) return bits % 7 == 0 ? 2 : 1;
  return static_cast<double>(bits % 9) - (o.type == DataType::uint8 ? 0 : 4);
}

double reduced(const CollOptions& o, uint32_t ranks, uint64_t i) {
  double value = element(o, 0, i);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const double next = element(o, rank, i);
    switch (o.op) {
      case ReduceOp::prod:
        value *= next;
        break;
      case ReduceOp::min:
        value = std::min(value, next);
        break;
      case ReduceOp::max:
        value = std::max(value, next);
        break;
      default:
        value += next;
    }
  }
  if (o.op != ReduceOp::avg) return value;
  if (o.type <= DataType::int64) return std::trunc(value / ranks);
  if (o.type == DataType::fp64) return value / ranks;
  return static_cast<float>(value) / static_cast<float>(ranks);
}

double expected(const CollOptions& o, uint32_t ranks, uint32_t rank, uint64_t count, uint64_t i) {
  switch (o.collective) {
    case Collective::reduce_scatter:
      return reduced(o, ranks, rank * count + i);
    case Collective::all_gather:
      return element(o, static_cast<uint32_t>(i / count), i % count);
    case Collective::broadcast:
      return element(o, o.root, i);
    case Collective::all_to_all:
      return element(o, static_cast<uint32_t>(i / count), rank * count + i % count);
    default:
      return reduced(o, ranks, i);
  }
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void encode(DataType type, double value, std::byte* at) {
  const float single = static_cast<float>(value);
  switch (type) {
    case DataType::uint8:
      return put(at, static_cast<uint8_t>(static_cast<int64_t>(value)));
    case DataType::int32:
      return put(at, static_cast<int32_t>(value));
    case DataType::int64:
      return put(at, static_cast<int64_t>(value));
    case DataType::fp16:
      return put(at, collective::narrow_to_fp16(single));
    case DataType::bf16:
      return put(at, collective::narrow_to_bf16(single));
    case DataType::fp32:
      return put(at, single);
    default:
      return put(at, value);
  }
}

}  // namespace

uint64_t input_elements(const CollOptions& o, uint32_t ranks, uint32_t rank, uint64_t count) {
  return collective::input_size(shape_of(o, ranks, count), rank);
}

uint64_t output_elements(const CollOptions& o, uint32_t ranks, uint32_t rank, uint64_t count) {
  return collective::output_size(shape_of(o, ranks, count), rank);
}

void fill_input(const CollOptions& o, uint32_t ranks, uint32_t rank, uint64_t count,
                std::byte* input) {
  for (uint64_t i = 0; i < input_elements(o, ranks, rank, count); ++i)
    encode(o.type, element(o, rank, i), input + i * size_of(o.type));
}

uint64_t count_wrong(const CollOptions& o, uint32_t ranks, uint32_t rank, uint64_t count,
                     const std::byte* output) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < output_elements(o, ranks, rank, count); ++i) {
    std::byte wanted[8];
    encode(o.type, expected(o, ranks, rank, count, i), wanted);
    if (std::memcmp(wanted, output + i * size_of(o.type), size_of(o.type)) != 0) ++wrong;
  }
  return wrong;
}

}  // namespace weft::bench
