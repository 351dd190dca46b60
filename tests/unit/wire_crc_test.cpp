// SPDX-License-Identifier: BSD-3-Clause
// The CRC itself: the fast and the portable one agree, copying sums what was copied, and a CRC can
// be run backwards.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/wire/crc_portable.hpp"
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

TEST_CASE("copying copies, and sums the same") {
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

#if !defined(__SANITIZE_THREAD__)
// The race is the point, so not for ThreadSanitizer.
TEST_CASE("the sum fits the copy while the source changes") {
  std::vector<std::byte> from(4096), to(4096);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t value = 1; !stop.load(std::memory_order_relaxed); ++value) {
      auto* word = reinterpret_cast<volatile uint64_t*>(from.data() + value * 8 % 4096);
      *word = value * 0x9E3779B97F4A7C15;
    }
  });
  int wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t crc = crc_copy(~0u, to.data(), from.data(), from.size());
    wrong += crc != crc_continue(~0u, to.data(), to.size());
  }
  stop = true;
  writer.join();
  CHECK(wrong == 0);
}
#endif

TEST_CASE("running backwards undoes appended zeros") {
  base::Random random(4);
  const std::vector<std::byte> zeros(140'000);
  for (uint32_t count : {0u, 1u, 2u, 255u, 256u, 257u, 1000u, 65535u, 65536u, 131'071u, 140'000u}) {
    const auto crc = static_cast<uint32_t>(random.next());
    CHECK(crc_rewind(crc_continue(crc, zeros.data(), count), count) == crc);
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
