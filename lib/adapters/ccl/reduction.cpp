// SPDX-License-Identifier: BSD-3-Clause
// Types, reductions and products.
#include "lib/adapters/ccl/reduction.hpp"

#include <cstring>
#include <type_traits>

#include "lib/adapters/ccl/result.hpp"
#include "lib/collective/arithmetic/float16.hpp"
#include "lib/collective/arithmetic/float8.hpp"

namespace weft::ccl {
namespace {

using collective::Bf16;
using collective::E4m3;
using collective::E5m2;
using collective::Fp16;

Bf16 narrowed(float value, Bf16) { return collective::narrow_to_bf16(value); }
Fp16 narrowed(float value, Fp16) { return collective::narrow_to_fp16(value); }
E4m3 narrowed(float value, E4m3) { return collective::narrow8<E4m3>(value); }
E5m2 narrowed(float value, E5m2) { return collective::narrow8<E5m2>(value); }

template <class T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return narrowed(collective::widen(a) * collective::widen(b), T{});
  }
}

// Buffers need no alignment.
template <class T>
void multiply_all(const void* scalar, const void* from, std::byte* to, size_t count) {
  T factor;
  std::memcpy(&factor, scalar, sizeof factor);
  const std::byte* const source = static_cast<const std::byte*>(from);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, source + i * sizeof value, sizeof value);
    value = product(factor, value);
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

Result<DataType> type_of(ncclDataType_t type) {
  static constexpr DataType kTypes[] = {DataType::int8,   DataType::uint8,    DataType::int32,
                                        DataType::uint32, DataType::int64,    DataType::uint64,
                                        DataType::fp16,   DataType::fp32,     DataType::fp64,
                                        DataType::bf16,   DataType::fp8_e4m3, DataType::fp8_e5m2};
  static_assert(std::size(kTypes) == ncclNumTypes);
  if (static_cast<unsigned>(type) < ncclNumTypes) return kTypes[type];
  return wrong("there is no data type " + std::to_string(type));
}

Result<Reduction> reduction_of(ncclRedOp_t op, DataType type, Comm& comm) {
  static constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                      ReduceOp::avg};
  static_assert(std::size(kOps) == ncclNumOps);
  if (static_cast<unsigned>(op) < ncclNumOps) return Reduction{kOps[op]};
  const std::optional<Factor> factor = comm.factor(op);
  if (!factor) return wrong("the communicator has no reduction " + std::to_string(op));
  if (factor->type == type) return Reduction{ReduceOp::sum, factor};
  return wrong("the reduction " + std::to_string(op) + " was made for " +
               std::string(name(factor->type)) + ", the call is of " + std::string(name(type)));
}

void multiply(const Factor& factor, const void* from, std::byte* to, size_t count) {
  const void* const scalar = factor.memory != nullptr ? factor.memory : &factor.value;
  switch (factor.type) {
    case DataType::int8:
      return multiply_all<int8_t>(scalar, from, to, count);
    case DataType::uint8:
      return multiply_all<uint8_t>(scalar, from, to, count);
    case DataType::int32:
      return multiply_all<int32_t>(scalar, from, to, count);
    case DataType::uint32:
      return multiply_all<uint32_t>(scalar, from, to, count);
    case DataType::int64:
      return multiply_all<int64_t>(scalar, from, to, count);
    case DataType::uint64:
      return multiply_all<uint64_t>(scalar, from, to, count);
    case DataType::fp16:
      return multiply_all<Fp16>(scalar, from, to, count);
    case DataType::bf16:
      return multiply_all<Bf16>(scalar, from, to, count);
    case DataType::fp64:
      return multiply_all<double>(scalar, from, to, count);
    case DataType::fp8_e4m3:
      return multiply_all<E4m3>(scalar, from, to, count);
    case DataType::fp8_e5m2:
      return multiply_all<E5m2>(scalar, from, to, count);
    default:
      return multiply_all<float>(scalar, from, to, count);
  }
}

}  // namespace weft::ccl
