// SPDX-License-Identifier: BSD-3-Clause
// The 8-bit floating-point formats of OCP (OFP8 1.0) and their blocks with a shared scale (MX 1.0)
// to and from fp32, written as float16.hpp is: loops over them vectorise, and nothing multiplies
// subnormal numbers. E4M3 has no infinity, its largest number is 448; E5M2 is the upper half of an
// fp16, its largest number 57344. Narrowing rounds to nearest, ties to even, and saturates: what is
// larger, infinity too, becomes the largest number; NaNs stay NaNs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/collective/arithmetic/float16.hpp"

namespace weft::collective {

// A format by its numbers. `kBias` is the difference to fp32's, in place; `kLeast` the smallest
// normal number.
struct E4m3 {
  uint8_t bits = 0;
  static constexpr int kShift = 20;  // of the mantissa, to fp32's
  static constexpr uint32_t kBias = 120U << 23;
  static constexpr uint32_t kLargest = 0x7E;
  static constexpr bool kHasInfinity = false;
  static constexpr uint32_t kBeyond = 0x7FC00000;
  static constexpr float kLeast = 0x1p-6F;
  static constexpr float kUnit = 0x1p14F;  // whose last bit is the smallest subnormal
  static constexpr int kExponent = 8;      // of the largest number
};
struct E5m2 {
  uint8_t bits = 0;
  static constexpr int kShift = 21;
  static constexpr uint32_t kBias = 112U << 23;
  static constexpr uint32_t kLargest = 0x7B;
  static constexpr bool kHasInfinity = true;
  static constexpr uint32_t kBeyond = kBias;  // 31 + 2 * 112 = 255
  static constexpr float kLeast = 0x1p-14F;
  static constexpr float kUnit = 0x1p7F;
  static constexpr int kExponent = 15;
};

// `less` is taken from the exponent of the result: 0, or 1 << 23 for half of the value.
template <class F>
WEFT_LOOP float widen8(F value, uint32_t less = 0) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x80) << 24;
  const uint32_t magnitude = value.bits & 0x7F;
  const int32_t number = static_cast<int32_t>(magnitude);  // signed comparisons are faster
  const uint32_t moved = (magnitude << F::kShift) + (F::kBias - less);
  // A subnormal: as if it had the leading one, which is then taken away.
  const bool subnormal = number < (0x800000 >> F::kShift);
  const uint32_t leading = select(subnormal, 0x800000, 0);
  const uint32_t taken = select(subnormal, std::bit_cast<uint32_t>(F::kLeast) - less, 0);
  uint32_t result =
      std::bit_cast<uint32_t>(std::bit_cast<float>(moved + leading) - std::bit_cast<float>(taken));
  // Beyond the largest number: infinity and NaN by an exponent of all ones, or NaN alone.
  const bool beyond = number > static_cast<int32_t>(F::kLargest);
  result = F::kHasInfinity ? result + select(beyond, F::kBeyond + less, 0)
                           : result | select(beyond, F::kBeyond, 0);
  return std::bit_cast<float>(sign | result);
}
WEFT_LOOP float widen(E4m3 value) { return widen8(value); }
WEFT_LOOP float widen(E5m2 value) { return widen8(value); }

template <class F>
WEFT_LOOP F narrow8(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 24 & 0x80;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t half = (1U << (F::kShift - 1)) - 1;
  const uint32_t rounded = magnitude + half + (magnitude >> F::kShift & 1);
  const uint32_t normal = (rounded - F::kBias) >> F::kShift;
  // Adding kUnit leaves the rounded multiple of the smallest subnormal in the lowest bits.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + F::kUnit) -
                             std::bit_cast<uint32_t>(F::kUnit);
  uint32_t result = select(magnitude < std::bit_cast<uint32_t>(F::kLeast), subnormal,
                           std::min(normal, F::kLargest));
  result = select(magnitude > 0x7F800000, 0x7F, result);
  return {static_cast<uint8_t>(sign | result)};
}

// 32 values and what they are multiplied with, 2^(scale - 127); a scale of 255 makes all of them
// NaN. One element of DataType::mxfp8_*.
template <class F>
struct MxBlock {
  static constexpr size_t kValues = 32;
  uint8_t scale = 0;
  F values[kValues];
};
static_assert(sizeof(MxBlock<E4m3>) == 33 && alignof(MxBlock<E4m3>) == 1);

// The scale 2^-127 would be subnormal: half of the values times 2^-126 are the same.
template <class F>
WEFT_LOOP void widen_block(const MxBlock<F>& block, float* values) {
  const uint32_t less = block.scale == 0 ? 1U << 23 : 0;
  uint32_t factor = uint32_t{block.scale} << 23 | less;
  if (block.scale == 255) factor = 0x7FC00000U;
  for (size_t i = 0; i < MxBlock<F>::kValues; ++i)
    values[i] = widen8(block.values[i], less) * std::bit_cast<float>(factor);
}

// MX 1.0 section 6.3: the scale is the power of two of the largest number, less that of the
// format's largest; values that round beyond it are the largest. Infinities and NaNs do not count
// for the scale and are NaN, so that an overflow is not hidden.
template <class F>
WEFT_LOOP void narrow_block(const float* values, MxBlock<F>& block) {
  constexpr size_t kValues = MxBlock<F>::kValues;
  uint32_t largest = 0;
  for (size_t i = 0; i < kValues; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFF;
    largest = std::max(largest, select(magnitude < 0x7F800000, magnitude, 0));
  }
  const int exponent = static_cast<int>(largest >> 23) - F::kExponent;
  block.scale = static_cast<uint8_t>(std::max(exponent, 0));
  const float factor = std::bit_cast<float>((254U - block.scale) << 23);
  for (size_t i = 0; i < kValues; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t not_a_number = (bits >> 24 & 0x80) | 0x7F;
    const F narrowed = narrow8<F>(values[i] * factor);
    block.values[i].bits = static_cast<uint8_t>(
        select((bits & 0x7FFFFFFF) >= 0x7F800000, not_a_number, narrowed.bits));
  }
}

}  // namespace weft::collective
