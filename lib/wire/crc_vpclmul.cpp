// SPDX-License-Identifier: BSD-3-Clause
// Folding. A message is a polynomial over GF(2), its CRC the remainder after division by P, and
// whatever stands n bits before the end may be replaced by anything congruent to it. So a block of
// 128 bits, high half H and low half L, is carried D bits forward by two products,
//     (H x^64 + L) x^D  =  H (x^(D+64) mod P) + L (x^D mod P)   (mod P),
// which are 95 bits long and are added to the block that stands there. Four registers of two blocks
// each do it for 128 bytes a step; at the end they are folded into one block and that is divided,
// by Barrett's method: a multiplication by the inverse of P gives the quotient. The idea is Gopal
// et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ" (Intel, 2009); the
// constants are computed here by the compiler.
//
// Reflection: the first bit of a message is the lowest bit of its first byte, so in a register of n
// bits, loaded little-endian, bit k is the coefficient of x^(n-1-k). The carry-less product of two
// 64-bit registers has its bit k at x^(126-k): read as a 128-bit register it is the product times
// x. A remainder r, 32 bits, stands in the low half of its 64-bit register, where it means r x^32.
// So multiplying by the register of x^n mod P multiplies by x^(n+33), and each exponent below is
// less by that much than the formula has.
#include "lib/wire/crc_vpclmul.hpp"

#include <array>
#include <cstring>

#include "lib/wire/crc_portable.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

// Per function, so that the rest of the program runs on any x86-64. Both compilers clear the upper
// halves (vzeroupper) where such a function returns.
#define WEFT_FOLD __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define WEFT_FOLD_INLINE WEFT_FOLD inline __attribute__((always_inline))
#define WEFT_WIDE __attribute__((target("avx512f,avx2,pclmul,vpclmulqdq")))
#define WEFT_WIDE_INLINE WEFT_WIDE inline __attribute__((always_inline))

namespace weft::wire {
namespace {

constexpr uint32_t kOne = 0x80000000, kX = 0x40000000;

// x^n mod P.
constexpr uint32_t power_of_x(uint32_t n) {
  uint32_t result = kOne;
  for (uint32_t square = kX; n != 0; n >>= 1, square = crc_multiply(square, square))
    if (n & 1) result = crc_multiply(result, square);
  return result;
}

// The quotient x^95 / P: 64 bits, and enough to divide 96 bits exactly. For T = the upper 64 bits
// and x^95 = M P + R,  T M / x^63 = T x^32 / P - T R / (P x^63), and the last term has degree < 0.
constexpr uint64_t inverse() {
  uint64_t quotient = 0;
  uint32_t remainder = 1;  // x^31, and 64 more bits to come
  for (int i = 0; i < 64; ++i) {
    const uint32_t bit = remainder & 1;
    quotient |= static_cast<uint64_t>(bit) << i;
    remainder = remainder >> 1 ^ (kCrcPolynomial & (0u - bit));
  }
  return quotient;
}

// P itself with its x^32, in 33 bits.
constexpr uint64_t kP = static_cast<uint64_t>(kCrcPolynomial) << 1 | 1;

// What carries a word of 64 bits forward to where the division takes it: m more words follow it,
// and then the 32 zeros which the definition of CRC appends.
constexpr std::array<uint32_t, kCrcFoldWords> make_word_powers() {
  std::array<uint32_t, kCrcFoldWords> powers{};
  for (uint32_t m = 0; m < kCrcFoldWords; ++m) powers[m] = power_of_x(64 * m + 31);
  return powers;
}

constexpr std::array<uint32_t, kCrcFoldWords> kWordPowers = make_word_powers();

// Shuffles: 16 bytes from offset n shift a register up by 16 - n bytes, from 16 + n down by n.
constexpr std::array<uint8_t, 48> make_shifts() {
  std::array<uint8_t, 48> shifts{};
  for (size_t i = 0; i < shifts.size(); ++i)
    shifts[i] = i >= 16 && i < 32 ? static_cast<uint8_t>(i - 16) : uint8_t{0x80};
  return shifts;
}

constexpr std::array<uint8_t, 48> kShifts = make_shifts();

WEFT_FOLD_INLINE __m128i shift_mask(size_t offset) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShifts.data() + offset));
}

// Where the message is read and, if it is copied, where it goes.
struct Cursor {
  const std::byte* from;
  std::byte* to;
};

// The empty asm makes the value opaque: what is stored is what is summed, the compiler cannot read
// the source (which may change meanwhile) once for each.
template <bool kCopy>
WEFT_FOLD_INLINE __m128i take_16(Cursor& at, size_t step = 16) {
  __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at.from));
  at.from += step;
  if constexpr (kCopy) {
    __asm__("" : "+x"(block));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at.to), block);
    at.to += step;
  }
  return block;
}

template <bool kCopy>
WEFT_FOLD_INLINE __m256i take_32(Cursor& at) {
  __m256i blocks = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at.from));
  at.from += 32;
  if constexpr (kCopy) {
    __asm__("" : "+x"(blocks));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at.to), blocks);
    at.to += 32;
  }
  return blocks;
}

template <bool kCopy, typename Word>
WEFT_FOLD_INLINE uint64_t take_word(const Cursor& at, size_t offset) {
  Word word;
  std::memcpy(&word, at.from + offset, sizeof word);
  if constexpr (kCopy) {
    __asm__("" : "+r"(word));
    std::memcpy(at.to + offset, &word, sizeof word);
  }
  return word;
}

// One block carried `kBits` forward.
template <uint32_t kBits>
WEFT_FOLD_INLINE __m128i fold_16(__m128i block) {
  constexpr uint32_t kHigh = power_of_x(kBits + 64 - 33), kLow = power_of_x(kBits - 33);
  const __m128i powers = _mm_set_epi64x(kLow, kHigh);
  return _mm_xor_si128(_mm_clmulepi64_si128(block, powers, 0x00),
                       _mm_clmulepi64_si128(block, powers, 0x11));
}

// Two blocks, each `kBits` forward.
template <uint32_t kBits>
WEFT_FOLD_INLINE __m256i fold_32(__m256i blocks) {
  constexpr uint32_t kHigh = power_of_x(kBits + 64 - 33), kLow = power_of_x(kBits - 33);
  const __m256i powers = _mm256_set_epi64x(kLow, kHigh, kLow, kHigh);
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(blocks, powers, 0x00),
                          _mm256_clmulepi64_epi128(blocks, powers, 0x11));
}

// The remainder of 96 bits that stand in bits 0 to 95.
WEFT_FOLD_INLINE uint32_t divide(__m128i dividend) {
  const __m128i factors = _mm_set_epi64x(kP, static_cast<int64_t>(inverse()));
  const __m128i quotient = _mm_clmulepi64_si128(dividend, factors, 0x00);
  const __m128i product = _mm_clmulepi64_si128(quotient, factors, 0x10);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(dividend, product), 2));
}

// The CRC of one block: its high half takes the way of a word before the last, its low half is the
// last.
WEFT_FOLD_INLINE uint32_t finish(__m128i block) {
  const __m128i power = _mm_cvtsi32_si128(static_cast<int>(kWordPowers[1]));
  return divide(_mm_xor_si128(_mm_clmulepi64_si128(block, power, 0x00), _mm_srli_si128(block, 8)));
}

// Less than a block, by two words that may overlap: of the first only the bytes before the second
// count. The words are moved to the end of a block whose other bytes are zero, which changes
// nothing as leading zeros.
template <bool kCopy>
WEFT_FOLD_INLINE uint32_t sum_short(uint32_t crc, Cursor at, size_t size) {
  if (size >= 8) {
    const size_t before = 8 * (size - 8);
    const uint64_t first = take_word<kCopy, uint64_t>(at, 0) ^ crc;
    const uint64_t second = take_word<kCopy, uint64_t>(at, size - 8) ^ uint64_t { crc } >> before;
    const uint64_t high = first << (56 - before) << 8;
    return finish(_mm_set_epi64x(static_cast<int64_t>(second), static_cast<int64_t>(high)));
  }
  if (size >= 4) {
    const size_t before = 8 * (size - 4);
    const uint64_t first = take_word<kCopy, uint32_t>(at, 0) ^ crc;
    const uint64_t second = take_word<kCopy, uint32_t>(at, size - 4) ^ uint64_t { crc } >> before;
    const uint64_t word = second << 32 | static_cast<uint32_t>(first << (32 - before));
    return divide(_mm_cvtsi64_si128(static_cast<int64_t>(word)));
  }
  for (size_t i = 0; i < size; ++i) {
    std::byte byte = static_cast<std::byte>(take_word<kCopy, uint8_t>(at, i));
    crc = crc_portable(crc, &byte, 1);
  }
  return crc;
}

// The register is added to the first four bytes. A part of a block comes first, moved to the end of
// a block of its own, and not last: then the rest is whole blocks and needs no masks. The bytes of
// the next block that are read with the part are read (and stored) again with their own block.
template <bool kCopy>
WEFT_FOLD_INLINE uint32_t sum(uint32_t crc, Cursor at, size_t size) {
  if (size < 16) return sum_short<kCopy>(crc, at, size);
  const size_t part = size % 16;
  size -= part;
  __m128i carry = _mm_cvtsi32_si128(static_cast<int>(crc));
  if (part != 0) {
    const __m128i block = _mm_xor_si128(take_16<kCopy>(at, part), carry);
    const __m128i behind = _mm_shuffle_epi8(carry, shift_mask(16 + part));
    carry = _mm_xor_si128(fold_16<128>(_mm_shuffle_epi8(block, shift_mask(part))), behind);
  }
  if (size == 16) return finish(_mm_xor_si128(take_16<kCopy>(at), carry));

  __m256i a = _mm256_xor_si256(take_32<kCopy>(at), _mm256_zextsi128_si256(carry));
  size -= 32;
  if (size >= 96) {
    __m256i b = take_32<kCopy>(at), c = take_32<kCopy>(at), d = take_32<kCopy>(at);
    for (size -= 96; size >= 128; size -= 128) {
      a = _mm256_xor_si256(fold_32<1024>(a), take_32<kCopy>(at));
      b = _mm256_xor_si256(fold_32<1024>(b), take_32<kCopy>(at));
      c = _mm256_xor_si256(fold_32<1024>(c), take_32<kCopy>(at));
      d = _mm256_xor_si256(fold_32<1024>(d), take_32<kCopy>(at));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(fold_32<768>(a), fold_32<512>(b)),
                         _mm256_xor_si256(fold_32<256>(c), d));
  }
  for (; size >= 32; size -= 32) a = _mm256_xor_si256(fold_32<256>(a), take_32<kCopy>(at));
  __m128i last =
      _mm_xor_si128(fold_16<128>(_mm256_castsi256_si128(a)), _mm256_extracti128_si256(a, 1));
  if (size != 0) last = _mm_xor_si128(fold_16<128>(last), take_16<kCopy>(at));
  return finish(last);
}

WEFT_WIDE_INLINE __m512i copy_64(Cursor& at) {
  __m512i blocks = _mm512_loadu_si512(at.from);
  __asm__("" : "+v"(blocks));
  _mm512_storeu_si512(at.to, blocks);
  at.from += 64, at.to += 64;
  return blocks;
}

// Four blocks, each `kBits` forward, and added to what stands there.
template <uint32_t kBits>
WEFT_WIDE_INLINE __m512i fold_64(__m512i blocks, __m512i there) {
  constexpr uint32_t kHigh = power_of_x(kBits + 64 - 33), kLow = power_of_x(kBits - 33);
  const __m512i powers = _mm512_set_epi64(kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh);
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(blocks, powers, 0x00),
                                   _mm512_clmulepi64_epi128(blocks, powers, 0x11), there,
                                   kXorOfThree);
}

// 256 bytes a step, and what is left by sum(). The copy costs next to nothing: the multipliers are
// what is waited for.
WEFT_WIDE_INLINE uint32_t sum_wide_copy(uint32_t crc, Cursor at, size_t size) {
  const __m512i carry = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc)));
  __m512i a = _mm512_xor_si512(copy_64(at), carry);
  __m512i b = copy_64(at), c = copy_64(at), d = copy_64(at);
  for (size -= 256; size >= 256; size -= 256) {
    a = fold_64<2048>(a, copy_64(at));
    b = fold_64<2048>(b, copy_64(at));
    c = fold_64<2048>(c, copy_64(at));
    d = fold_64<2048>(d, copy_64(at));
  }
  d = fold_64<1536>(a, fold_64<1024>(b, fold_64<512>(c, d)));
  __m256i halves[2];  // not by _mm512_extract..: gcc 12 warns of its own header there
  std::memcpy(halves, &d, sizeof halves);
  const __m256i e = _mm256_xor_si256(fold_32<256>(halves[0]), halves[1]);
  const __m128i last =
      _mm_xor_si128(fold_16<128>(_mm256_castsi256_si128(e)), _mm256_extracti128_si256(e, 1));
  crc = finish(last);
  return size == 0 ? crc : sum<true>(crc, at, size);
}

}  // namespace

bool crc_fold_supported() noexcept {
  __builtin_cpu_init();  // the caller may be an initialiser that runs before libgcc's
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
         __builtin_cpu_supports("vpclmulqdq");
}

WEFT_FOLD uint32_t crc_fold(uint32_t crc, const std::byte* data, size_t size) noexcept {
  return sum<false>(crc, {data, nullptr}, size);
}

WEFT_FOLD uint32_t crc_fold_copy(uint32_t crc, std::byte* to, const std::byte* from,
                                 size_t size) noexcept {
  return sum<true>(crc, {from, to}, size);
}

bool crc_fold_wide_supported() noexcept {
  return crc_fold_supported() && __builtin_cpu_supports("avx512f");
}

WEFT_WIDE uint32_t crc_fold_wide_copy(uint32_t crc, std::byte* to, const std::byte* from,
                                      size_t size) noexcept {
  return sum_wide_copy(crc, {from, to}, size);
}

WEFT_FOLD uint32_t crc_fold_words(uint32_t crc, const uint64_t* words, size_t count) noexcept {
  // The last word is in place; without one before it, it is the first.
  uint64_t start = crc;
  __m128i dividend = _mm_setzero_si128();
  for (size_t m = count - 1; m != 0; --m, ++words, start = 0) {
    const __m128i word = _mm_cvtsi64_si128(static_cast<int64_t>(*words ^ start));
    const __m128i power = _mm_cvtsi32_si128(static_cast<int>(kWordPowers[m]));
    dividend = _mm_xor_si128(dividend, _mm_clmulepi64_si128(word, power, 0x00));
  }
  const __m128i last = _mm_cvtsi64_si128(static_cast<int64_t>(*words ^ start));
  return divide(_mm_xor_si128(dividend, last));
}

WEFT_FOLD uint32_t crc_fold_multiply(uint32_t a, uint32_t b) noexcept {
  // As 96 bits: 31 + 31 for the two x^0, and 33 that the shifts add, make 95.
  const __m128i left = _mm_cvtsi64_si128(static_cast<int64_t>(uint64_t{a} << 32));
  const __m128i right = _mm_cvtsi64_si128(static_cast<int64_t>(uint64_t{b} << 1));
  return divide(_mm_clmulepi64_si128(left, right, 0x00));
}

}  // namespace weft::wire

#else

namespace weft::wire {

bool crc_fold_supported() noexcept { return false; }
bool crc_fold_wide_supported() noexcept { return false; }

uint32_t crc_fold_wide_copy(uint32_t crc, std::byte* to, const std::byte* from,
                            size_t size) noexcept {
  return crc_fold_copy(crc, to, from, size);
}

uint32_t crc_fold(uint32_t crc, const std::byte* data, size_t size) noexcept {
  return crc_portable(crc, data, size);
}

uint32_t crc_fold_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept {
  std::memcpy(to, from, size);
  return crc_portable(crc, to, size);
}

uint32_t crc_fold_words(uint32_t crc, const uint64_t* words, size_t count) noexcept {
  return crc_portable(crc, reinterpret_cast<const std::byte*>(words), count * sizeof *words);
}

uint32_t crc_fold_multiply(uint32_t a, uint32_t b) noexcept { return crc_multiply(a, b); }

}  // namespace weft::wire

#endif
