// SPDX-License-Identifier: BSD-3-Clause
// Inputs and expected results, computed element by element.
#include "tools/coll/reference.hpp"

#include <cmath>
#include <cstring>

#include "lib/collective/arithmetic/float16.hpp"
#include "lib/collective/arithmetic/float8.hpp"

namespace weft::bench {
namespace {

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
  if (is_integer(o.type)) return std::trunc(value / ranks);
  if (o.type == DataType::fp64) return value / ranks;
  return static_cast<float>(value) / static_cast<float>(ranks);
}

// Expected element i of the output of a reduction or a broadcast.
double computed(const CollOptions& o, const collective::Shape& shape, uint32_t rank, uint64_t i) {
  if (o.collective == Collective::broadcast) return element(o, o.root, i);
  const bool scattered = collective::scatters(o.collective);
  return reduced(o, shape.ranks, i + (scattered ? collective::rank_block(shape, rank).offset : 0));
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// A block that holds one value 32 times.
template <class F>
collective::MxBlock<F> block_of(float value) {
  float values[collective::MxBlock<F>::kValues];
  for (float& each : values) each = value;
  collective::MxBlock<F> block;
  collective::narrow_block(values, block);
  return block;
}

}  // namespace

double element(const CollOptions& o, uint32_t rank, uint64_t i) {
  if (o.all_ones) return 1;
  uint64_t bits = o.seed + i * 0x9E3779B97F4A7C15 + rank * 0xC2B2AE3D27D4EB4F;
  bits = (bits ^ bits >> 29) * 0xBF58476D1CE4E5B9 >> 40;
  if (o.op == ReduceOp::prod) return bits % 7 == 0 ? 2 : 1;
  return static_cast<double>(bits % 9) - (is_unsigned(o.type) ? 0 : 4);
}

void encode(DataType type, double value, std::byte* at) {
  const float single = static_cast<float>(value);
  switch (type) {
    case DataType::uint8:
    case DataType::int8:
      return put(at, static_cast<uint8_t>(static_cast<int64_t>(value)));
    case DataType::uint16:
    case DataType::int16:
      return put(at, static_cast<uint16_t>(static_cast<int64_t>(value)));
    case DataType::uint32:
    case DataType::int32:
      return put(at, static_cast<uint32_t>(static_cast<int64_t>(value)));
    case DataType::uint64:
    case DataType::int64:
      return put(at, static_cast<int64_t>(value));
    case DataType::fp16:
      return put(at, collective::narrow_to_fp16(single));
    case DataType::bf16:
      return put(at, collective::narrow_to_bf16(single));
    case DataType::fp32:
      return put(at, single);
    case DataType::fp8_e4m3:
      return put(at, collective::narrow8<collective::E4m3>(single));
    case DataType::fp8_e5m2:
      return put(at, collective::narrow8<collective::E5m2>(single));
    case DataType::mxfp8_e4m3:
      return put(at, block_of<collective::E4m3>(single));
    case DataType::mxfp8_e5m2:
      return put(at, block_of<collective::E5m2>(single));
    default:
      return put(at, value);
  }
}

bool is_value(DataType type, double value, const std::byte* at) {
  std::byte wanted[33];
  encode(type, value, wanted);
  return std::memcmp(wanted, at, size_of(type)) == 0;
}

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

collective::Shape shape_of(const CollOptions& o, uint32_t ranks, uint64_t count) {
  collective::Shape shape{
      .collective = o.collective, .ranks = ranks, .root = o.root, .count = count};
  if (!collective::has_blocks(o.collective)) return shape;
  const auto size = [&](uint32_t i) {
    return ranks == 1 ? count : 2 * count * (i % ranks) / (ranks - 1);
  };
  const bool by_sum = collective::gathers(o.collective) || collective::scatters(o.collective);
  const uint32_t rows = by_sum ? 1 : ranks;
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t i = 0; i < ranks; ++i) shape.blocks.counts.push_back(size(row + i));
  return shape;
}

uint64_t count_wrong(const CollOptions& o, uint32_t ranks, uint32_t rank, uint64_t count,
                     const std::byte* output) {
  const collective::Shape shape = shape_of(o, ranks, count);
  uint64_t wrong = 0;
  const auto compare = [&](uint64_t i, double value) {
    wrong += !is_value(o.type, value, output + i * size_of(o.type));
  };
  const bool gathered = collective::gathers(o.collective);
  if (gathered || o.collective == Collective::all_to_all ||
      o.collective == Collective::all_to_all_v) {
    for (uint32_t from = 0; from < ranks; ++from) {
      const collective::Range target = gathered ? collective::rank_block(shape, from)
                                                : collective::receive_block(shape, from, rank);
      const uint64_t source = gathered ? 0 : collective::send_block(shape, from, rank).offset;
      for (uint64_t i = 0; i < target.count; ++i)
        compare(target.offset + i, element(o, from, source + i));
    }
    return wrong;
  }
  if (o.collective == Collective::exchange) {
    const uint32_t source = partners_of(o, ranks, rank).source;
    for (uint64_t i = 0; i < count; ++i) compare(i, element(o, source, i));
    return wrong;
  }
  for (uint64_t i = 0; i < output_elements(o, ranks, rank, count); ++i)
    compare(i, computed(o, shape, rank, i));
  return wrong;
}

}  // namespace weft::bench
