// SPDX-License-Identifier: BSD-3-Clause
// fp16 (IEEE 754 binary16) and bf16 to and from fp32, on any processor, without tables and without
// branches that depend on ordinary data, so that compilers vectorise loops over them. Narrowing
// rounds to nearest, ties to even; overflow is infinity; NaNs stay NaNs (quiet, upper bits kept).
#pragma once

#include <bit>
#include <cstdint>

// Loops over elements are compiled for several processors, so the functions that they call must be
// inlined into them.
#define WEFT_LOOP [[gnu::always_inline]] inline

namespace weft::collective {

struct Bf16 {
  uint16_t bits = 0;
};
struct Fp16 {
  uint16_t bits = 0;
};

// `yes` or `no`, both of which are computed: a branch would prevent vectorisation.
inline uint32_t select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0U - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

WEFT_LOOP float widen(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

WEFT_LOOP Bf16 narrow_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
  const uint32_t quiet = bits | 0x400000;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return {static_cast<uint16_t>((is_nan ? quiet : rounded) >> 16)};
}

WEFT_LOOP float widen(Fp16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t magnitude = value.bits & 0x7FFF;
  // The exponent moves from bias 15 to bias 127; infinity and NaN to all ones.
  const uint32_t normal = (magnitude << 13) + select(magnitude >= 0x7C00, 0x70000000, 0x38000000);
  // A subnormal is an integer times 2^-24.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
  return std::bit_cast<float>(sign | select(magnitude < 0x400, subnormal, normal));
}

inline Fp16 narrow_to_fp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  const uint32_t normal = (rounded - 0x38000000) >> 13;
  // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  const uint32_t nan = 0x7E00 | (magnitude >> 13 & 0x3FF);
  uint32_t result = select(magnitude < 0x38800000, subnormal, normal);
  result = select(rounded >= 0x47800000, 0x7C00, result);
  result = select(magnitude > 0x7F800000, nan, result);
  return {static_cast<uint16_t>(sign | result)};
}

}  // namespace weft::collective
