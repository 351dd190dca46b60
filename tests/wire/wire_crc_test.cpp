// SPDX-License-Identifier: BSD-3-Clause
// CRC-32: all implementations agree, the CRC of a copy is that of the copied bytes, and a CRC can
// be rewound.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/wire/crc.hpp"
#include "lib/wire/crc_portable.hpp"
#include "lib/wire/crc_vpclmul.hpp"
#include "lib/wire/icrc.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::wire;

namespace {

std::vector<std::byte> random_bytes(base::Random& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

// Bit by bit, from the definition.
uint32_t crc_slow(uint32_t crc, const std::byte* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    crc ^= static_cast<uint32_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return crc;
}

}  // namespace

TEST_CASE("the fast CRC, the portable one and the definition agree C-ICRC-11") {
  base::Random random(1);
  const auto bytes = random_bytes(random, 9100);
  for (size_t size = 0; size < 600; ++size) {
    for (size_t offset : {0u, 1u, 7u}) {
      const auto start = static_cast<uint32_t>(random.next());
      const uint32_t slow = crc_slow(start, bytes.data() + offset, size);
      REQUIRE(crc_portable(start, bytes.data() + offset, size) == slow);
      REQUIRE(crc_continue(start, bytes.data() + offset, size) == slow);
    }
  }
  for (size_t size : {1023u, 1024u, 4095u, 4096u, 4112u, 8192u, 9000u}) {
    const uint32_t slow = crc_slow(~0u, bytes.data() + 3, size);
    CHECK(crc_portable(~0u, bytes.data() + 3, size) == slow);
    CHECK(crc_continue(~0u, bytes.data() + 3, size) == slow);
  }
}

TEST_CASE("a CRC may be continued anywhere") {
  base::Random random(2);
  const auto bytes = random_bytes(random, 300);
  const uint32_t whole = crc_continue(~0u, bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = crc_continue(~0u, bytes.data(), cut);
    REQUIRE(crc_continue(first, bytes.data() + cut, bytes.size() - cut) == whole);
  }
}

TEST_CASE("copying copies, with the same CRC") {
  base::Random random(3);
  const auto from = random_bytes(random, 20'000);
  for (size_t size : {0u, 1u, 15u, 16u, 1024u, 4096u, 4097u, 9000u, 20'000u}) {
    std::vector<std::byte> to(size + 1, std::byte{0x5A});
    const uint32_t crc = crc_copy(7, to.data(), from.data(), size);
    CHECK(crc == crc_portable(7, from.data(), size));
    CHECK(std::memcmp(to.data(), from.data(), size) == 0);
    CHECK(to[size] == std::byte{0x5A});
  }
}

TEST_CASE("the widest copying kernel agrees with the tables at every length C-ICRC-11") {
  const auto kernel = crc_fold_wide_supported() ? crc_fold_wide_copy : crc_copy;
  base::Random random(8);
  const auto from = random_bytes(random, 5000);
  std::vector<std::byte> to(5000 + 64);
  for (size_t size = 256; size <= 4200; ++size) {
    const size_t offset = size % 64, back = size % 61;
    const auto start = static_cast<uint32_t>(random.next());
    std::fill(to.begin(), to.end(), std::byte{0x5A});
    const uint32_t crc = kernel(start, to.data() + back, from.data() + offset, size);
    if (crc != crc_portable(start, from.data() + offset, size) ||
        std::memcmp(to.data() + back, from.data() + offset, size) != 0 ||
        to[back + size] != std::byte{0x5A} || (back != 0 && to[back - 1] != std::byte{0x5A}))
      FAIL("size " << size << ", start " << start);
  }
}

#if !defined(__SANITIZE_THREAD__)
// The race is the point, so not for ThreadSanitizer.
TEST_CASE("the CRC is that of the copy while the source changes") {
  std::vector<std::byte> from(4096), to(4096);
  // Whole blocks, and parts of one, of which some bytes are read twice.
  constexpr std::array<size_t, 6> kSizes = {4096, 4087, 300, 47, 13, 7};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t value = 1; !stop.load(std::memory_order_relaxed); ++value) {
      const uint64_t place = value & 1 ? value * 4 % 48 : value * 8 % 4096;
      auto* word = reinterpret_cast<volatile uint64_t*>(from.data() + place / 8 * 8);
      *word = value * 0x9E3779B97F4A7C15;
    }
  });
  int wrong = 0;
  for (size_t i = 0; i < 30'000; ++i) {
    const size_t size = kSizes[i % kSizes.size()];
    const uint32_t crc = crc_copy(~0u, to.data(), from.data(), size);
    wrong += crc != crc_continue(~0u, to.data(), size);
  }
  stop = true;
  writer.join();
  CHECK(wrong == 0);
}
#endif

TEST_CASE("rewinding undoes appended zeros") {
  base::Random random(4);
  const std::vector<std::byte> zeros(140'000);
  for (uint32_t count : {0u, 1u, 2u, 255u, 256u, 257u, 1000u, 65535u, 65536u, 131'071u, 140'000u}) {
    const auto crc = static_cast<uint32_t>(random.next());
    CHECK(crc_rewind(crc_continue(crc, zeros.data(), count), count) == crc);
  }
}

namespace {

// One byte too many on either side is a fault.
class Fenced {
 public:
  static constexpr size_t kSize = 8192, kFence = 4096;
  Fenced() {
    void* all = mmap(nullptr, kSize + 2 * kFence, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    base_ = static_cast<std::byte*>(all);
    REQUIRE(mprotect(begin(), kSize, PROT_READ | PROT_WRITE) == 0);
  }
  ~Fenced() { munmap(base_, kSize + 2 * kFence); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  std::byte* begin() const { return base_ + kFence; }
  std::byte* end() const { return begin() + kSize; }

 private:
  std::byte* base_ = nullptr;
};

// The kernels where the CPU has them, even at lengths for which crc.cpp prefers another.
uint32_t kernel(uint32_t crc, const std::byte* data, size_t size) {
  return crc_fold_supported() ? crc_fold(crc, data, size) : crc_continue(crc, data, size);
}

uint32_t copy_kernel(uint32_t crc, std::byte* to, const std::byte* from, size_t size) {
  return crc_fold_supported() ? crc_fold_copy(crc, to, from, size) : crc_copy(crc, to, from, size);
}

}  // namespace

TEST_CASE("the kernel agrees with the tables at every length and alignment C-ICRC-11") {
  base::Random random(6);
  const auto bytes = random_bytes(random, 1024 + 64);
  for (size_t size = 0; size <= 1024; ++size) {
    for (size_t offset = 0; offset < 64; ++offset) {
      const auto start = static_cast<uint32_t>(random.next());
      const std::byte* data = bytes.data() + offset;
      const uint32_t right = crc_portable(start, data, size);
      if (kernel(start, data, size) != right || crc_continue(start, data, size) != right)
        FAIL("size " << size << ", offset " << offset << ", start " << start);
    }
  }
}

TEST_CASE("the copying kernel copies exactly, at every length and alignment C-ICRC-11") {
  base::Random random(7);
  const auto from = random_bytes(random, 1024 + 64);
  const std::vector<std::byte> clean(1024 + 192, std::byte{0x5A});
  std::vector<std::byte> to = clean;
  for (size_t size = 0; size <= 1024; ++size) {
    for (size_t offset = 0; offset < 64; offset += 1 + random.below(8)) {
      const auto start = static_cast<uint32_t>(random.next());
      const size_t at = random.below(64), end = at + size;
      const std::byte* data = from.data() + offset;
      INFO("size " << size << ", from " << offset << ", to " << at << ", start " << start);
      const bool library = random.below(2) != 0;
      const uint32_t crc =
          library ? crc_copy(start, &to[at], data, size) : copy_kernel(start, &to[at], data, size);
      REQUIRE(crc == crc_portable(start, data, size));
      REQUIRE(std::memcmp(&to[at], data, size) == 0);
      REQUIRE(std::memcmp(to.data(), clean.data(), at) == 0);
      REQUIRE(std::memcmp(&to[end], &clean[end], clean.size() - end) == 0);
      std::memset(&to[at], 0x5A, size);
    }
  }
}

TEST_CASE("the kernels stay within the data") {
  base::Random random(8);
  Fenced from, to;
  const auto bytes = random_bytes(random, Fenced::kSize);
  std::memcpy(from.begin(), bytes.data(), bytes.size());
  for (size_t size = 0; size <= Fenced::kSize; size += size < 300 ? 1 : 1 + random.below(200)) {
    INFO("size " << size);
    CHECK(kernel(1, from.begin(), size) == crc_portable(1, from.begin(), size));
    CHECK(kernel(1, from.end() - size, size) == crc_portable(1, from.end() - size, size));
    const uint32_t low = copy_kernel(1, to.begin(), from.end() - size, size);
    CHECK(low == crc_portable(1, to.begin(), size));
    const uint32_t high = copy_kernel(1, to.end() - size, from.begin(), size);
    CHECK(high == crc_portable(1, from.begin(), size));
  }
}

TEST_CASE("random splits between copying and summing make one CRC") {
  base::Random random(9);
  const auto from = random_bytes(random, 9000);
  std::vector<std::byte> to(from.size());
  const uint32_t whole = crc_portable(~0u, from.data(), from.size());
  for (int round = 0; round < 300; ++round) {
    const size_t longest = 1 + random.below(round % 3 == 0 ? 24 : 2000);
    uint32_t crc = ~0u;
    for (size_t at = 0; at < from.size();) {
      const size_t size = std::min<size_t>(random.below(longest + 1), from.size() - at);
      crc = random.below(2) != 0 ? copy_kernel(crc, &to[at], &from[at], size)
                                 : kernel(crc, &from[at], size);
      at += size;
    }
    REQUIRE(crc == whole);
  }
}

TEST_CASE("the CRC of words is that of their bytes, and products agree") {
  base::Random random(10);
  std::array<uint64_t, kCrcFoldWords> words;
  for (int round = 0; round < 200; ++round) {
    for (uint64_t& word : words) word = random.next();
    const auto start = static_cast<uint32_t>(random.next());
    for (size_t count = 1; count <= words.size(); ++count) {
      const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
      const uint32_t right = crc_portable(start, bytes, 8 * count);
      CHECK(crc_words(start, words.data(), count) == right);
      if (crc_fold_supported()) CHECK(crc_fold_words(start, words.data(), count) == right);
    }
    const auto a = static_cast<uint32_t>(random.next()), b = static_cast<uint32_t>(random.next());
    if (crc_fold_supported()) CHECK(crc_fold_multiply(a, b) == crc_multiply(a, b));
  }
}

TEST_CASE("the product is that of polynomials") {
  constexpr uint32_t kOne = 0x80000000, kX = 0x40000000;
  STATIC_REQUIRE(crc_multiply(kOne, 0x12345678) == 0x12345678);
  STATIC_REQUIRE(crc_multiply(kX, kX) == kX >> 1);
  STATIC_REQUIRE(crc_multiply(kX, 1) == kCrcPolynomial);  // x * x^31 = the polynomial without x^32
  base::Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const auto a = static_cast<uint32_t>(random.next()), b = static_cast<uint32_t>(random.next());
    CHECK(crc_multiply(a, b) == crc_multiply(b, a));
  }
}
