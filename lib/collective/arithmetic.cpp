// SPDX-License-Identifier: BSD-3-Clause
// One loop per (type, operation, kinds of operands), written so that the compiler vectorises it.
#include "lib/collective/arithmetic.hpp"

#include <cstring>
#include <type_traits>

#include "lib/collective/float16.hpp"

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
    return static_cast<A>(static_cast<Wrapping<A>>(a) * static_cast<Wrapping<A>>(b));
  }
};
// a != a is how a NaN shows; integers never do.
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

template <class Op, class A, class X, class Y>
void reduce(std::byte* target, const std::byte* a, const std::byte* b, size_t count) {
  for (size_t i = 0; i < count; ++i)
    store<A>(target, i, Op::template of<A>(wide(load<X>(a, i)), wide(load<Y>(b, i))));
}

template <class T>
void widen_all(std::byte* target, const std::byte* source, size_t count) {
  for (size_t i = 0; i < count; ++i) store<Accumulator<T>>(target, i, wide(load<T>(source, i)));
}

template <class T>
void finish(std::byte* target, const std::byte* source, size_t count, uint32_t divisor) {
  using A = Accumulator<T>;
  if (divisor == 1) {
    for (size_t i = 0; i < count; ++i) store<T>(target, i, narrow<T>(load<A>(source, i)));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    // Integers are divided in 64 bits: the divisor need not fit the type.
    using Quotient = std::conditional_t<std::is_integral_v<A>, int64_t, A>;
    const Quotient sum = static_cast<Quotient>(load<A>(source, i));
    store<T>(target, i, narrow<T>(static_cast<A>(sum / static_cast<Quotient>(divisor))));
  }
}

template <class T>
void add_weighted(std::byte* accumulators, const std::byte* elements, float weight, size_t count) {
  using A = Accumulator<T>;
  for (size_t i = 0; i < count; ++i)
    store<A>(accumulators, i,
             load<A>(accumulators, i) + static_cast<A>(weight) * wide(load<T>(elements, i)));
}

template <class T, class Op>
Arithmetic table() {
  using A = Accumulator<T>;
  Arithmetic result;
  result.element = sizeof(T);
  result.accumulator = sizeof(A);
  result.exact = std::is_same_v<T, A>;
  result.reduce[0][0] = reduce<Op, A, T, T>;
  result.reduce[0][1] = reduce<Op, A, T, A>;
  result.reduce[1][0] = reduce<Op, A, A, T>;
  result.reduce[1][1] = reduce<Op, A, A, A>;
  if (!result.exact) result.widen = widen_all<T>;
  result.finish = finish<T>;
  if constexpr (!std::is_integral_v<A>) result.add_weighted = add_weighted<T>;
  return result;
}

template <class T>
Arithmetic table_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return table<T, Product>();
    case ReduceOp::min:
      return table<T, Minimum>();
    case ReduceOp::max:
      return table<T, Maximum>();
    default:
      return table<T, Sum>();
  }
}

}  // namespace

Arithmetic arithmetic_of(DataType type, ReduceOp op) noexcept {
  switch (type) {
    case DataType::uint8:
      return table_of<uint8_t>(op);
    case DataType::int32:
      return table_of<int32_t>(op);
    case DataType::int64:
      return table_of<int64_t>(op);
    case DataType::fp16:
      return table_of<Fp16>(op);
    case DataType::bf16:
      return table_of<Bf16>(op);
    case DataType::fp32:
      return table_of<float>(op);
    default:
      return table_of<double>(op);
  }
}

}  // namespace weft::collective
