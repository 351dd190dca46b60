// SPDX-License-Identifier: BSD-3-Clause
// The 8-bit formats and their blocks compared with their definitions: all codes, all scales, every
// rounding boundary, and overflow.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/arithmetic/float8.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Definition {
  int mantissa_bits, bias;
  bool has_infinity;
  double largest;
};
template <class F>
constexpr Definition kDefinition = {3, 7, false, 448};
template <>
constexpr Definition kDefinition<E5m2> = {2, 15, true, 57344};

// OFP8 1.0, tables 1 and 2.
double float8_value_of(const Definition& format, int bits) {
  const int mantissa_range = 1 << format.mantissa_bits;
  const int mantissa = bits % mantissa_range, exponent = (bits & 0x7F) / mantissa_range;
  const double sign = bits >= 128 ? -1 : 1;
  if (!format.has_infinity && (bits & 0x7F) == 0x7F) return std::nan("");
  if (format.has_infinity && exponent == 31) return mantissa == 0 ? sign * kInfinity : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  return sign *
         std::ldexp(mantissa + mantissa_range, exponent - format.bias - format.mantissa_bits);
}

// The code nearest to a number, by exhaustive search.
int nearest(const Definition& format, double wanted) {
  const int sign = std::signbit(wanted) ? 0x80 : 0;
  wanted = std::abs(wanted);
  if (wanted >= format.largest) wanted = format.largest;  // saturates
  int best = 0;
  for (int code = 0; code < 128; ++code) {
    const double value = float8_value_of(format, code);
    if (!std::isfinite(value)) continue;
    const double error = std::abs(value - wanted),
                 best_error = std::abs(float8_value_of(format, best) - wanted);
    if (error < best_error || (error == best_error && code % 2 == 0)) best = code;
  }
  return sign | best;
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

template <class F>
void check_codes() {
  for (int bits = 0; bits < 256; ++bits) {
    INFO("code " << bits);
    const F code{static_cast<uint8_t>(bits)};
    const float wide = widen8(code);
    CHECK(same(wide, float8_value_of(kDefinition<F>, bits)));
    const uint8_t back = narrow8<F>(wide).bits;
    if (std::isnan(wide))
      CHECK((std::isnan(widen8(F{back})) && back >> 7 == bits >> 7));
    else if (std::isinf(wide))
      CHECK((back & 0x7F) == F::kLargest);
    else
      CHECK(back == bits);
  }
}

TEST_CASE("all 256 codes have their value and come back") {
  check_codes<E4m3>();
  check_codes<E5m2>();
}

template <class F>
void check_rounding() {
  // All upper halves of floats, with lower halves on both sides of every tie.
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (const uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, 0xFFFFU}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      const int got = narrow8<F>(value).bits;
      const bool right = std::isnan(value) ? std::isnan(float8_value_of(kDefinition<F>, got))
                                           : got == nearest(kDefinition<F>, value);
      if (!right) FAIL("narrowing " << value << " gives code " << got);
    }
}

TEST_CASE("narrowing to fp8 rounds to nearest even, and saturates") {
  check_rounding<E4m3>();
  check_rounding<E5m2>();
  CHECK(widen(narrow8<E4m3>(464.0F)) == 448.0F);  // a tie that would be the code of NaN
  CHECK(widen(narrow8<E4m3>(1e30F)) == 448.0F);
  CHECK(widen(narrow8<E4m3>(-std::numeric_limits<float>::infinity())) == -448.0F);
  CHECK(widen(narrow8<E5m2>(61440.0F)) == 57344.0F);  // a tie that would be infinity
  CHECK(widen(narrow8<E5m2>(std::numeric_limits<float>::infinity())) == 57344.0F);
}

template <class F>
void check_scales() {
  for (int scale = 0; scale < 256; ++scale)
    for (int bits = 0; bits < 256; ++bits) {
      MxBlock<F> block;
      block.scale = static_cast<uint8_t>(scale);
      for (F& value : block.values) value.bits = static_cast<uint8_t>(bits);
      float got[32];
      widen_block(block, got);
      // In fp32: what is too large for it is infinity, what is too small is rounded by it.
      const float wanted =
          scale == 255
              ? std::nanf("")
              : static_cast<float>(std::ldexp(float8_value_of(kDefinition<F>, bits), scale - 127));
      for (const float value : {got[0], got[31]})
        if (!same(wanted, value)) FAIL("scale " << scale << " code " << bits << ": " << value);
    }
}

TEST_CASE("blocks widen to value times scale, for all codes and scales") {
  check_scales<E4m3>();
  check_scales<E5m2>();
}

// MX 1.0 section 6.3, in doubles.
template <class F>
MxBlock<F> plain_block(const float* values) {
  double largest = 0;
  for (int i = 0; i < 32; ++i)
    if (std::isfinite(values[i])) largest = std::max(largest, std::abs(double{values[i]}));
  const int least = -127;
  const int exponent = largest == 0 ? least : std::ilogb(largest) - F::kExponent;
  const int scale = std::max(least, exponent);
  MxBlock<F> block;
  block.scale = static_cast<uint8_t>(scale + 127);
  for (int i = 0; i < 32; ++i)
    block.values[i].bits = static_cast<uint8_t>(
        std::isfinite(values[i]) ? nearest(kDefinition<F>, std::ldexp(double{values[i]}, -scale))
                                 : (std::signbit(values[i]) ? 0xFF : 0x7F));
  return block;
}

template <class F>
void check_blocks(uint64_t seed) {
  base::Random random(seed);
  for (int i = 0; i < 2000; ++i) {
    float values[32];
    const int range = static_cast<int>(random.below(40)),
              center = static_cast<int>(random.below(220));
    for (float& value : values) {
      const int exponent = center + static_cast<int>(random.below(range + 1)) - 125;
      value = std::ldexp(static_cast<float>(random.below(4096)) - 2048.0F, exponent);
      if (random.below(300) == 0) value = std::numeric_limits<float>::infinity();
      if (random.below(300) == 0) value = -std::nanf("");
      if (random.below(20) == 0) value = 0;
    }
    if (i == 0) std::memset(values, 0, sizeof values);
    MxBlock<F> block;
    narrow_block(values, block);
    const MxBlock<F> plain = plain_block<F>(values);
    if (std::memcmp(&block, &plain, sizeof block) != 0)
      FAIL("block " << i << " of seed " << seed << ": scale " << int{block.scale} << ", not "
                    << int{plain.scale});
  }
}

TEST_CASE("blocks are narrowed as in MX 1.0") {
  check_blocks<E4m3>(20261122);
  check_blocks<E5m2>(20261123);
}

// Sums of blocks: in fp32, narrowed once.
template <class F>
void check_sums(DataType type) {
  const Arithmetic arithmetic = arithmetic_of(type, ReduceOp::sum);
  REQUIRE(arithmetic.element == sizeof(MxBlock<F>));
  REQUIRE(!arithmetic.exact);
  constexpr size_t kBlocks = 5;
  base::Random random(7);
  MxBlock<F> a[kBlocks], b[kBlocks], c[kBlocks], sums[kBlocks];
  for (MxBlock<F>* const blocks : {a, b, c})
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks[i].scale = static_cast<uint8_t>(120 + random.below(12));
      for (F& value : blocks[i].values) value.bits = static_cast<uint8_t>(random.below(120));
    }
  std::vector<std::byte> wide(kBlocks * arithmetic.accumulator + 1);  // unaligned
  const auto bytes = [](MxBlock<F>* blocks) { return reinterpret_cast<std::byte*>(blocks); };
  arithmetic.reduce[0][0](&wide[1], bytes(a), bytes(b), kBlocks);
  arithmetic.reduce[0][1](&wide[1], bytes(c), &wide[1], kBlocks);
  arithmetic.finish(bytes(sums), &wide[1], kBlocks, 1);
  for (size_t i = 0; i < kBlocks; ++i) {
    float x[32], y[32], z[32];
    widen_block(a[i], x);
    widen_block(b[i], y);
    widen_block(c[i], z);
    for (int k = 0; k < 32; ++k) x[k] = z[k] + (x[k] + y[k]);
    const MxBlock<F> plain = plain_block<F>(x);
    CHECK(std::memcmp(&plain, &sums[i], sizeof plain) == 0);
  }
}

TEST_CASE("blocks are added in fp32 and narrowed once") {
  check_sums<E4m3>(DataType::mxfp8_e4m3);
  check_sums<E5m2>(DataType::mxfp8_e5m2);
}

TEST_CASE("fp8 is added in fp32 and narrowed once") {
  const Arithmetic arithmetic = arithmetic_of(DataType::fp8_e4m3, ReduceOp::sum);
  // 16 + 1 + 1 is 18; rounded after each addition it would stay 16.
  uint8_t codes[3] = {narrow8<E4m3>(16.0F).bits, narrow8<E4m3>(1.0F).bits,
                      narrow8<E4m3>(1.0F).bits};
  float sum = 0;
  std::byte* const target = reinterpret_cast<std::byte*>(&sum);
  const std::byte* const in = reinterpret_cast<const std::byte*>(codes);
  arithmetic.reduce[0][0](target, in, in + 1, 1);
  arithmetic.reduce[1][0](target, target, in + 2, 1);
  uint8_t result = 0;
  arithmetic.finish(reinterpret_cast<std::byte*>(&result), target, 1, 1);
  CHECK(widen(E4m3{result}) == 18.0F);
}

}  // namespace
}  // namespace weft::collective
