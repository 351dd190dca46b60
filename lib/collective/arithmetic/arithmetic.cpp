// SPDX-License-Identifier: BSD-3-Clause
// One loop per (type, operation, kinds of operands), written so that the compiler vectorises it.
// Blocks of MX are widened to a block of floats first, which stays in the first cache.
#include "lib/collective/arithmetic/arithmetic.hpp"

#include <cstring>
#include <type_traits>

#include "lib/base/independent.hpp"
#include "lib/collective/arithmetic/float16.hpp"
#include "lib/collective/arithmetic/float8.hpp"

namespace weft::collective {
namespace {

// The accumulator type of an element type.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<Bf16> {
  using type = float;
};
template <>
struct AccumulatorOf<Fp16> {
  using type = float;
};
template <>
struct AccumulatorOf<E4m3> {
  using type = float;
};
template <>
struct AccumulatorOf<E5m2> {
  using type = float;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

template <class T>
T load(const std::byte* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, size_t i, T value) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

template <class T>
Accumulator<T> wide(T value) {
  if constexpr (std::is_same_v<T, Accumulator<T>>)
    return value;
  else
    return widen(value);
}

template <class T>
T narrow(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, Bf16>)
    return narrow_to_bf16(value);
  else if constexpr (std::is_same_v<T, Fp16>)
    return narrow_to_fp16(value);
  else if constexpr (std::is_same_v<T, E4m3> || std::is_same_v<T, E5m2>)
    return narrow8<T>(value);
  else
    return value;
}

// Integers wrap, which only unsigned ones may.
template <class A>
using Wrapping = typename std::conditional_t<std::is_integral_v<A>, std::make_unsigned<A>,
                                             std::type_identity<A>>::type;

struct Sum {
  template <class A>
  static A of(A a, A b) {
    return static_cast<A>(static_cast<Wrapping<A>>(a) + static_cast<Wrapping<A>>(b));
  }
};
struct Product {
  template <class A>
  static A of(A a, A b) {
    if constexpr (std::is_integral_v<A>)  // those shorter than int would be multiplied as ints
      return static_cast<A>(1U * static_cast<Wrapping<A>>(a) * static_cast<Wrapping<A>>(b));
    else
      return a * b;
  }
};
// a != a is true for NaN only, never for integers.
struct Minimum {
  template <class A>
  static A of(A a, A b) {
    return b < a || b != b ? b : a;
  }
};
struct Maximum {
  template <class A>
  static A of(A a, A b) {
    return b > a || b != b ? b : a;
  }
};

// Prefetches b, the operand that may be in no cache, two pages ahead, beyond the reach of the
// hardware prefetcher. The target is one of the operands, or does not overlap them.
template <class Op, class A, class X, class Y>
WEFT_LOOP void reduce(std::byte* target, const std::byte* a, const std::byte* b, size_t count) {
  constexpr size_t kTogether = 128 / sizeof(A), kAhead = 8192, kLine = 64;
  const auto reduce_one = [&](size_t i) {
    store<A>(target, i, Op::template of<A>(wide(load<X>(a, i)), wide(load<Y>(b, i))));
  };
  size_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    for (size_t line = 0; line < kTogether * sizeof(Y); line += kLine)
      __builtin_prefetch(b + i * sizeof(Y) + kAhead + line);
    WEFT_INDEPENDENT
    for (size_t k = 0; k < kTogether; ++k) reduce_one(i + k);
  }
  for (; i < count; ++i) reduce_one(i);
}

template <class T>
WEFT_LOOP void widen_all(std::byte* target, const std::byte* source, size_t count) {
  for (size_t i = 0; i < count; ++i) store<Accumulator<T>>(target, i, wide(load<T>(source, i)));
}

template <class T>
WEFT_LOOP void finish(std::byte* target, const std::byte* source, size_t count, uint32_t divisor) {
  using A = Accumulator<T>;
  if (divisor == 1) {
    for (size_t i = 0; i < count; ++i) store<T>(target, i, narrow<T>(load<A>(source, i)));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    // Integers are divided in 64 bits: the divisor need not fit the type.
    using Widest = std::conditional_t<std::is_unsigned_v<A>, uint64_t, int64_t>;
    using Quotient = std::conditional_t<std::is_integral_v<A>, Widest, A>;
    const Quotient sum = static_cast<Quotient>(load<A>(source, i));
    store<T>(target, i, narrow<T>(static_cast<A>(sum / static_cast<Quotient>(divisor))));
  }
}

template <class T>
WEFT_LOOP void add_weighted(std::byte* accumulators, const std::byte* elements, float weight,
                            size_t count) {
  using A = Accumulator<T>;
  for (size_t i = 0; i < count; ++i)
    store<A>(accumulators, i,
             load<A>(accumulators, i) + static_cast<A>(weight) * wide(load<T>(elements, i)));
}

// ---- versions ----

// A loop compiled for any processor and for AVX2, which is twice as fast if there is much to
// compute per byte. Loops are inlined here, so nothing else is compiled for AVX2. There is no fused
// multiply-add in it, and both give the same bits.
template <class Signature, Signature* Loop>
struct Versions;
template <class... Arguments, void (*Loop)(Arguments...)>
struct Versions<void(Arguments...), Loop> {
  static void any(Arguments... arguments) { Loop(arguments...); }
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static void avx2(Arguments... arguments) { Loop(arguments...); }
#endif
};

template <class Signature, Signature* Loop>
Signature* version(bool portable) {
  using All = Versions<Signature, Loop>;
#if defined(__x86_64__)
  if (!portable && __builtin_cpu_supports("avx2") != 0) return All::avx2;
#endif
  (void)portable;
  return All::any;
}

using Reduction = void(std::byte*, const std::byte*, const std::byte*, size_t);
using Widening = void(std::byte*, const std::byte*, size_t);
using Finishing = void(std::byte*, const std::byte*, size_t, uint32_t);
using Weighting = void(std::byte*, const std::byte*, float, size_t);

template <class T, class Op>
Arithmetic table(bool portable) {
  using A = Accumulator<T>;
  Arithmetic result;
  result.element = sizeof(T);
  result.accumulator = sizeof(A);
  result.exact = std::is_same_v<T, A>;
  result.reduce[0][0] = version<Reduction, reduce<Op, A, T, T>>(portable);
  result.reduce[0][1] = version<Reduction, reduce<Op, A, T, A>>(portable);
  result.reduce[1][0] = version<Reduction, reduce<Op, A, A, T>>(portable);
  result.reduce[1][1] = version<Reduction, reduce<Op, A, A, A>>(portable);
  if (!result.exact) result.widen = version<Widening, widen_all<T>>(portable);
  result.finish = version<Finishing, finish<T>>(portable);
  if constexpr (!std::is_integral_v<A>)
    result.add_weighted = version<Weighting, add_weighted<T>>(portable);
  return result;
}

// ---- blocks of MX ----

constexpr size_t kValues = MxBlock<E4m3>::kValues;

// Blocks of floats, the accumulators.
struct Wide {};

// Element i as floats. Blocks have no alignment, so they are read where they are.
template <class X>
WEFT_LOOP void read_block(const std::byte* from, size_t i, float* values) {
  if constexpr (std::is_same_v<X, Wide>)
    for (size_t k = 0; k < kValues; ++k) values[k] = load<float>(from, i * kValues + k);
  else
    widen_block(reinterpret_cast<const X*>(from)[i], values);
}

WEFT_LOOP void write_wide(std::byte* to, size_t i, const float* values) {
  for (size_t k = 0; k < kValues; ++k) store(to, i * kValues + k, values[k]);
}

template <class Op, class X, class Y>
WEFT_LOOP void reduce_blocks(std::byte* target, const std::byte* a, const std::byte* b,
                             size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float x[kValues], y[kValues];
    read_block<X>(a, i, x);
    read_block<Y>(b, i, y);
    for (size_t k = 0; k < kValues; ++k) x[k] = Op::of(x[k], y[k]);
    write_wide(target, i, x);
  }
}

template <class F>
WEFT_LOOP void widen_blocks(std::byte* target, const std::byte* source, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float values[kValues];
    read_block<MxBlock<F>>(source, i, values);
    write_wide(target, i, values);
  }
}

template <class F>
WEFT_LOOP void finish_blocks(std::byte* target, const std::byte* source, size_t count,
                             uint32_t divisor) {
  for (size_t i = 0; i < count; ++i) {
    float values[kValues];
    read_block<Wide>(source, i, values);
    if (divisor != 1)
      for (float& value : values) value /= static_cast<float>(divisor);
    narrow_block(values, reinterpret_cast<MxBlock<F>*>(target)[i]);
  }
}

template <class F>
WEFT_LOOP void add_weighted_blocks(std::byte* accumulators, const std::byte* elements, float weight,
                                   size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float sum[kValues], more[kValues];
    read_block<Wide>(accumulators, i, sum);
    read_block<MxBlock<F>>(elements, i, more);
    for (size_t k = 0; k < kValues; ++k) sum[k] += weight * more[k];
    write_wide(accumulators, i, sum);
  }
}

template <class F, class Op>
Arithmetic table_of_blocks(bool portable) {
  using T = MxBlock<F>;
  Arithmetic result;
  result.element = sizeof(T);
  result.accumulator = kValues * sizeof(float);
  result.exact = false;
  result.reduce[0][0] = version<Reduction, reduce_blocks<Op, T, T>>(portable);
  result.reduce[0][1] = version<Reduction, reduce_blocks<Op, T, Wide>>(portable);
  result.reduce[1][0] = version<Reduction, reduce_blocks<Op, Wide, T>>(portable);
  result.reduce[1][1] = version<Reduction, reduce_blocks<Op, Wide, Wide>>(portable);
  result.widen = version<Widening, widen_blocks<F>>(portable);
  result.finish = version<Finishing, finish_blocks<F>>(portable);
  result.add_weighted = version<Weighting, add_weighted_blocks<F>>(portable);
  return result;
}

template <class T, class Op>
Arithmetic table(bool portable) requires std::is_same_v<T, MxBlock<E4m3>> {
  return table_of_blocks<E4m3, Op>(portable);
}
template <class T, class Op>
Arithmetic table(bool portable) requires std::is_same_v<T, MxBlock<E5m2>> {
  return table_of_blocks<E5m2, Op>(portable);
}

template <class T>
Arithmetic table_of(ReduceOp op, bool portable) {
  switch (op) {
    case ReduceOp::prod:
      return table<T, Product>(portable);
    case ReduceOp::min:
      return table<T, Minimum>(portable);
    case ReduceOp::max:
      return table<T, Maximum>(portable);
    default:
      return table<T, Sum>(portable);
  }
}

}  // namespace

Arithmetic arithmetic_of(DataType type, ReduceOp op, bool portable) noexcept {
  switch (type) {
    case DataType::uint8:
      return table_of<uint8_t>(op, portable);
    case DataType::int8:
      return table_of<int8_t>(op, portable);
    case DataType::uint16:
      return table_of<uint16_t>(op, portable);
    case DataType::int16:
      return table_of<int16_t>(op, portable);
    case DataType::uint32:
      return table_of<uint32_t>(op, portable);
    case DataType::int32:
      return table_of<int32_t>(op, portable);
    case DataType::uint64:
      return table_of<uint64_t>(op, portable);
    case DataType::int64:
      return table_of<int64_t>(op, portable);
    case DataType::fp16:
      return table_of<Fp16>(op, portable);
    case DataType::bf16:
      return table_of<Bf16>(op, portable);
    case DataType::fp32:
      return table_of<float>(op, portable);
    case DataType::fp8_e4m3:
      return table_of<E4m3>(op, portable);
    case DataType::fp8_e5m2:
      return table_of<E5m2>(op, portable);
    case DataType::mxfp8_e4m3:
      return table_of<MxBlock<E4m3>>(op, portable);
    case DataType::mxfp8_e5m2:
      return table_of<MxBlock<E5m2>>(op, portable);
    default:
      return table_of<double>(op, portable);
  }
}

}  // namespace weft::collective
