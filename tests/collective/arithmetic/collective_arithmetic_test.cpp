// SPDX-License-Identifier: BSD-3-Clause
// Conversions against all 65,536 values and a plain reference of rounding; reductions against the
// textbook: wrapping integers, NaNs, averages, one rounding.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/arithmetic/float16.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

// The value of a binary format with 5 or 8 exponent bits, by its definition.
double value_of(uint16_t bits, int mantissa_bits, int bias) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> mantissa_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int top = (1 << (15 - mantissa_bits)) - 1;
  if (exponent == top)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST_CASE("fp16 and bf16 widen to their value and come back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t word = static_cast<uint16_t>(bits);
    const double half = value_of(word, 10, 15), brain = value_of(word, 7, 127);
    const float wide_half = widen(Fp16{word}), wide_brain = widen(Bf16{word});
    const bool ok =
        (std::isnan(half) ? std::isnan(wide_half) && std::isnan(widen(narrow_to_fp16(wide_half)))
                          : wide_half == half && narrow_to_fp16(wide_half).bits == word) &&
        (std::isnan(brain) ? std::isnan(wide_brain) && std::isnan(widen(narrow_to_bf16(wide_brain)))
                           : wide_brain == brain && narrow_to_bf16(wide_brain).bits == word);
    if (!ok) FAIL("bits " << bits);
  }
}

// `got` must be the nearest of its two neighbours, the even one when both are as near.
bool is_nearest(float wanted, uint16_t got, int mantissa_bits, int bias) {
  const double value = value_of(got, mantissa_bits, bias);
  const double error = std::abs(value - wanted);
  for (const int step : {-1, 1}) {
    const uint16_t next = static_cast<uint16_t>(got + step);
    if ((next & 0x8000) != (got & 0x8000)) continue;
    double other = value_of(next, mantissa_bits, bias);
    if (std::isnan(other)) continue;
    if (std::isinf(other))  // rounding sees the next value of an unbounded exponent
      other = std::copysign(std::ldexp(1.0, (1 << (15 - mantissa_bits)) - 1 - bias), other);
    const double other_error = std::abs(other - wanted);
    if (other_error < error || (other_error == error && (got & 1) != 0)) return false;
  }
  return true;
}

TEST_CASE("narrowing rounds to nearest even") {
  const uint64_t seed = 20261121;
  INFO("seed " << seed);
  base::Random random(seed);
  for (int i = 0; i < 300'000; ++i) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(random.next()));
    if (i % 2 == 0)  // in fp16's range, half of them exactly between two values
      value = std::ldexp(static_cast<float>(random.below(4096)) + (i % 4 == 0 ? 0.0F : 0.5F),
                         static_cast<int>(random.below(30)) - 26);
    if (!std::isfinite(value)) continue;
    const uint16_t half = narrow_to_fp16(value).bits, brain = narrow_to_bf16(value).bits;
    const bool half_overflows = std::abs(value) >= 65520.0F;
    if (half_overflows != ((half & 0x7FFF) == 0x7C00)) FAIL("fp16 overflow of " << value);
    if (!half_overflows && !is_nearest(value, half, 10, 15)) FAIL("fp16 of " << value);
    if ((brain & 0x7FFF) != 0x7F80 && !is_nearest(value, brain, 7, 127)) FAIL("bf16 of " << value);
  }
}

template <class T>
T reduced(DataType type, ReduceOp op, T a, T b) {
  T target{};
  const Arithmetic arithmetic = arithmetic_of(type, op);
  REQUIRE(arithmetic.element == sizeof(T));
  arithmetic.reduce[0][0](reinterpret_cast<std::byte*>(&target),
                          reinterpret_cast<const std::byte*>(&a),
                          reinterpret_cast<const std::byte*>(&b), 1);
  return target;
}

TEST_CASE("integers wrap, minimum and maximum keep NaNs") {
  CHECK(reduced<int32_t>(DataType::int32, ReduceOp::sum, INT32_MAX, 1) == INT32_MIN);
  CHECK(reduced<uint8_t>(DataType::uint8, ReduceOp::sum, 200, 100) == 44);
  CHECK(reduced<int64_t>(DataType::int64, ReduceOp::prod, INT64_MIN, -1) == INT64_MIN);
  CHECK(reduced<uint16_t>(DataType::uint16, ReduceOp::prod, 65535, 65535) == 1);
  CHECK(reduced<int16_t>(DataType::int16, ReduceOp::sum, INT16_MAX, 1) == INT16_MIN);
  CHECK(reduced<int8_t>(DataType::int8, ReduceOp::prod, -128, -1) == -128);
  CHECK(reduced<uint32_t>(DataType::uint32, ReduceOp::sum, UINT32_MAX, 2) == 1);
  CHECK(reduced<int32_t>(DataType::int32, ReduceOp::min, -5, 3) == -5);
  // Values that are negative as signed are the largest as unsigned.
  CHECK(reduced<int8_t>(DataType::int8, ReduceOp::min, -1, 1) == -1);
  CHECK(reduced<uint32_t>(DataType::uint32, ReduceOp::max, UINT32_MAX, 1) == UINT32_MAX);
  CHECK(reduced<uint64_t>(DataType::uint64, ReduceOp::max, UINT64_MAX, 1) == UINT64_MAX);
  CHECK(reduced<int16_t>(DataType::int16, ReduceOp::max, -1, 1) == 1);
  CHECK(reduced<uint8_t>(DataType::uint8, ReduceOp::max, 200, 100) == 200);
  const double nan = std::nan("");
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    CHECK(std::isnan(reduced<double>(DataType::fp64, op, nan, 1.0)));
    CHECK(std::isnan(reduced<double>(DataType::fp64, op, 1.0, nan)));
  }
  CHECK(reduced<float>(DataType::fp32, ReduceOp::prod, 3.0F, -2.0F) == -6.0F);
}

TEST_CASE("averages divide once, at the end") {
  int32_t integers[] = {-7, 7, 8};
  const Arithmetic whole = arithmetic_of(DataType::int32, ReduceOp::avg);
  whole.finish(reinterpret_cast<std::byte*>(integers), reinterpret_cast<std::byte*>(integers), 3,
               4);
  CHECK(integers[0] == -1);
  CHECK(integers[1] == 1);
  CHECK(integers[2] == 2);
  uint64_t large = UINT64_MAX - 3;
  arithmetic_of(DataType::uint64, ReduceOp::avg)
      .finish(reinterpret_cast<std::byte*>(&large), reinterpret_cast<std::byte*>(&large), 1, 4);
  CHECK(large == UINT64_MAX / 4);
  const float sum = 1.0F + 0x1p-8F;  // between two bf16 values; the division makes it one
  uint16_t rounded = 0;
  const Arithmetic brain = arithmetic_of(DataType::bf16, ReduceOp::avg);
  CHECK(!brain.exact);
  brain.finish(reinterpret_cast<std::byte*>(&rounded), reinterpret_cast<const std::byte*>(&sum), 1,
               1);
  CHECK(widen(Bf16{rounded}) == 1.0F);  // to even
}

TEST_CASE("reductions of all operand kinds agree, at any alignment") {
  for (const DataType type : {DataType::bf16, DataType::fp16}) {
    const Arithmetic arithmetic = arithmetic_of(type, ReduceOp::sum);
    constexpr size_t kCount = 37;
    std::vector<std::byte> a(kCount * 2 + 1), b(kCount * 2 + 1), wide_a(kCount * 4 + 1),
        wide_b(kCount * 4 + 1);
    for (size_t i = 0; i < kCount; ++i) {
      const uint16_t x = static_cast<uint16_t>(0x3C00 + i),
                     y = static_cast<uint16_t>(0x3800 + 3 * i);
      std::memcpy(&a[1 + 2 * i], &x, 2);
      std::memcpy(&b[1 + 2 * i], &y, 2);
    }
    arithmetic.widen(&wide_a[1], &a[1], kCount);
    arithmetic.widen(&wide_b[1], &b[1], kCount);
    std::vector<std::byte> expected(kCount * 4), got(kCount * 4 + 1);
    arithmetic.reduce[1][1](expected.data(), &wide_a[1], &wide_b[1], kCount);
    for (const int kinds : {0, 1, 2}) {
      const bool a_wide = (kinds & 1) != 0, b_wide = (kinds & 2) != 0;
      arithmetic.reduce[a_wide][b_wide](&got[1], a_wide ? &wide_a[1] : &a[1],
                                        b_wide ? &wide_b[1] : &b[1], kCount);
      CHECK(std::memcmp(&got[1], expected.data(), expected.size()) == 0);
    }
  }
}

TEST_CASE("sums of any length cover all elements, and no others") {
  const auto check = [](DataType type, auto zero) {
    using T = decltype(zero);
    const Arithmetic arithmetic = arithmetic_of(type, ReduceOp::sum);
    for (size_t count = 0; count < 300; ++count) {
      std::vector<T> a(count + 1), b(count + 1), expected(count + 1);
      for (size_t i = 0; i <= count; ++i) {
        a[i] = static_cast<T>(i % 50);
        b[i] = expected[i] = static_cast<T>(3 * i % 70);
        if (i < count) expected[i] = static_cast<T>(a[i] + b[i]);
      }
      std::byte* const target = reinterpret_cast<std::byte*>(b.data());
      arithmetic.reduce[0][0](target, reinterpret_cast<std::byte*>(a.data()), target, count);
      if (b != expected) FAIL(name(type) << ": " << count << " elements");
    }
  };
  check(DataType::uint8, uint8_t{});
  check(DataType::int32, int32_t{});
  check(DataType::int64, int64_t{});
  check(DataType::fp32, float{});
  check(DataType::fp64, double{});
}

TEST_CASE("the fastest version for this processor gives the same bits") {
  const uint64_t seed = 20261122;
  INFO("seed " << seed);
  base::Random random(seed);
  constexpr size_t kCount = 67;
  for (int t = 0; t <= static_cast<int>(DataType::mxfp8_e5m2); ++t)
    for (int o = 0; o <= static_cast<int>(ReduceOp::avg); ++o) {
      const DataType type = static_cast<DataType>(t);
      INFO(name(type) << " " << name(static_cast<ReduceOp>(o)));
      const Arithmetic fast = arithmetic_of(type, static_cast<ReduceOp>(o));
      const Arithmetic plain = arithmetic_of(type, static_cast<ReduceOp>(o), true);
      std::vector<std::byte> a(kCount * fast.element), b(a.size());
      for (std::vector<std::byte>* const bytes : {&a, &b})  // no NaNs: their payload is free
        for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random.below(0x60));
      std::vector<std::byte> sums[2], results[2], sources[2];
      for (const Arithmetic* const arithmetic : {&fast, &plain}) {
        const bool second = arithmetic == &plain;
        sums[second].resize(kCount * fast.accumulator);
        results[second].resize(kCount * fast.element);
        sources[second].resize(kCount * fast.accumulator);
        if (arithmetic->widen != nullptr)
          arithmetic->widen(sources[second].data(), a.data(), kCount);
        arithmetic->reduce[0][0](sums[second].data(), a.data(), b.data(), kCount);
        arithmetic->reduce[0][1](sums[second].data(), b.data(), sums[second].data(), kCount);
        if (arithmetic->add_weighted != nullptr)
          arithmetic->add_weighted(sums[second].data(), a.data(), 0.3F, kCount);
        arithmetic->finish(results[second].data(), sums[second].data(), kCount, 3);
      }
      CHECK(sources[0] == sources[1]);
      CHECK(sums[0] == sums[1]);
      CHECK(results[0] == results[1]);
    }
}

}  // namespace
}  // namespace weft::collective
