// SPDX-License-Identifier: BSD-3-Clause
// lib/memory/guarded_copy: bytes and order of the copies, and faults on pages of the user:
// unmapped, protected, truncated, in the middle of a range, in many threads, on a thread
// without an alternate stack.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "lib/memory/guarded_copy.hpp"
#include "tests/support/pages.hpp"

using weft::memory::compare_swap;
using weft::memory::copy_in;
using weft::memory::copy_out;
using weft::memory::fetch_add;
using weft::memory::install_fault_guard;
using weft::memory::run_guarded;
using weft::test::kPage;
using weft::test::make_file;

namespace {

// Catch2 puts its own handlers in place for each case: the guard goes over them again.
struct CopyPages : weft::test::Pages {
  explicit CopyPages(size_t pages, int fd = -1) : weft::test::Pages(pages, fd) {
    install_fault_guard();
  }
};

std::vector<std::byte> pattern(size_t size, unsigned salt = 1) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + salt);
  return bytes;
}

}  // namespace

TEST_CASE("addresses that no page can have are faults as others are") {
  install_fault_guard();
  for (const uint64_t address : {uint64_t{0}, uint64_t{4096}, uint64_t{1} << 47, uint64_t{1} << 60,
                                 UINT64_MAX - 4096, UINT64_MAX - 65, (uint64_t{1} << 47) - 8}) {
    INFO(address);
    auto* const at = reinterpret_cast<std::byte*>(address);
    std::byte other[64] = {};
    uint64_t original = 0;
    CHECK_FALSE(copy_in(at, other, sizeof other));
    CHECK_FALSE(copy_out(other, at, sizeof other));
    CHECK_FALSE(copy_out(other, at, 1));
    auto* const word = reinterpret_cast<std::byte*>(address & ~uint64_t{7});
    CHECK_FALSE(compare_swap(word, 0, 1, &original));
    CHECK_FALSE(fetch_add(word, 1, &original));
  }
}

TEST_CASE("copies equal memcpy for sizes 0..300 and all alignments of both sides") {
  install_fault_guard();
  const std::vector<std::byte> source = pattern(400);
  size_t wrong = 0;
  for (size_t size = 0; size <= 300; ++size)
    for (size_t to = 0; to < 16; ++to)
      for (size_t from = 0; from < 16; ++from) {
        alignas(64) std::byte expected[400], in[400], out[400];
        std::memset(expected, 0xEE, sizeof expected);
        std::memcpy(in, expected, sizeof in);
        std::memcpy(out, expected, sizeof out);
        std::memcpy(expected + 32 + to, source.data() + from, size);
        wrong += !copy_in(in + 32 + to, source.data() + from, size);
        wrong += !copy_out(out + 32 + to, source.data() + from, size);
        wrong += std::memcmp(expected, in, sizeof in) != 0;
        wrong += std::memcmp(expected, out, sizeof out) != 0;
      }
  CHECK(wrong == 0);
}

TEST_CASE("copies equal memcpy for large sizes around the powers of two") {
  install_fault_guard();
  const std::vector<std::byte> source = pattern((1 << 20) + 64);
  std::vector<std::byte> target(source.size());
  for (size_t bits = 8; bits <= 20; ++bits)
    for (const int delta : {-9, -8, -1, 0, 1, 7, 8, 31})
      for (const size_t shift : {0, 1, 4, 8}) {
        const size_t size = (size_t{1} << bits) + static_cast<size_t>(delta);
        std::fill(target.begin(), target.end(), std::byte{0});
        REQUIRE(copy_in(target.data() + shift, source.data() + 3, size));
        REQUIRE(std::memcmp(target.data() + shift, source.data() + 3, size) == 0);
        REQUIRE(target[shift + size] == std::byte{0});
        std::fill(target.begin(), target.end(), std::byte{0});
        REQUIRE(copy_out(target.data() + 5, source.data() + shift, size));
        REQUIRE(std::memcmp(target.data() + 5, source.data() + shift, size) == 0);
        REQUIRE(target[5 + size] == std::byte{0});
      }
}

TEST_CASE("a fault gives false, wherever in the range the bad page is") {
  const std::vector<std::byte> source = pattern(8 * kPage);
  for (const int protection : {PROT_NONE, PROT_READ}) {
    for (size_t bad = 0; bad < 8; ++bad) {
      const CopyPages pages(8);
      pages.protect(bad, protection);
      CHECK_FALSE(copy_in(pages.at, source.data(), pages.size));
      for (size_t page = 0; page < bad; ++page)
        CHECK(std::memcmp(pages.at + page * kPage, source.data() + page * kPage, kPage - 256) == 0);
      std::vector<std::byte> target(pages.size);
      CHECK(copy_out(target.data(), pages.at, pages.size) == (protection == PROT_READ));
    }
  }
}

TEST_CASE("a fault at the first byte after the good ones, for every size and distance") {
  const std::vector<std::byte> source = pattern(kPage);
  const CopyPages pages(2);
  pages.protect(1, PROT_NONE);
  size_t wrong = 0;
  for (size_t size = 1; size <= 300; ++size)
    for (size_t good = 0; good <= size; ++good) {
      std::byte* at = pages.at + kPage - good;
      std::byte target[300];
      wrong += copy_in(at, source.data(), size) != (good == size);
      wrong += copy_out(target, at, size) != (good == size);
    }
  CHECK(wrong == 0);
}

TEST_CASE("an unmapped page gives false") {
  CopyPages pages(1);
  std::byte word[8] = {};
  uint64_t original = 0;
  pages.unmap(0);
  CHECK_FALSE(copy_in(pages.at, word, 8));
  CHECK_FALSE(copy_out(word, pages.at + 1, 1));
  CHECK_FALSE(compare_swap(pages.at, 0, 1, &original));
  CHECK_FALSE(fetch_add(pages.at, 1, &original));
}

TEST_CASE("a file that was truncated after it was mapped gives false, then works when it is back") {
  const int fd = make_file(4 * kPage);
  const CopyPages pages(4, fd);
  const std::vector<std::byte> source = pattern(4 * kPage);
  CHECK(copy_in(pages.at, source.data(), pages.size));
  REQUIRE(ftruncate(fd, static_cast<off_t>(2 * kPage)) == 0);
  uint64_t original = 0;
  std::vector<std::byte> target(pages.size);
  CHECK_FALSE(copy_in(pages.at, source.data(), pages.size));
  CHECK_FALSE(copy_out(target.data(), pages.at, pages.size));
  CHECK_FALSE(copy_in(pages.at + 2 * kPage, source.data(), 1));
  CHECK_FALSE(fetch_add(pages.at + 2 * kPage, 1, &original));
  CHECK(copy_in(pages.at, source.data(), 2 * kPage));
  REQUIRE(ftruncate(fd, static_cast<off_t>(4 * kPage)) == 0);
  CHECK(copy_in(pages.at, source.data(), pages.size));
  close(fd);
}

TEST_CASE("atomics are executed and need write permission") {
  const CopyPages pages(1);
  auto* word = reinterpret_cast<uint64_t*>(pages.at);
  uint64_t original = 99;
  CHECK(fetch_add(pages.at, 5, &original));
  CHECK(original == 0);
  CHECK(compare_swap(pages.at, 4, 7, &original));
  CHECK(original == 5);
  CHECK(*word == 5);
  CHECK(compare_swap(pages.at, 5, 7, &original));
  CHECK(original == 5);
  CHECK(*word == 7);
  CHECK(fetch_add(pages.at, UINT64_MAX, &original));
  CHECK(*word == 6);
  pages.protect(0, PROT_READ);
  CHECK_FALSE(fetch_add(pages.at, 1, &original));
  CHECK_FALSE(compare_swap(pages.at, 6, 1, &original));
  CHECK(*word == 6);
}

TEST_CASE("atomics of several threads add up") {
  const CopyPages pages(1);
  constexpr int kThreads = 4, kRounds = 10'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        uint64_t seen = 0;
        if (!fetch_add(pages.at, 1, &seen)) std::abort();
        uint64_t expected = 0;
        if (!copy_out(reinterpret_cast<std::byte*>(&expected), pages.at + 8, 8)) std::abort();
        do {
          seen = expected;
          if (!compare_swap(pages.at + 8, seen, seen + 1, &expected)) std::abort();
        } while (expected != seen);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(reinterpret_cast<uint64_t*>(pages.at)[0] == kThreads * kRounds);
  CHECK(reinterpret_cast<uint64_t*>(pages.at)[1] == kThreads * kRounds);
}

TEST_CASE("run_guarded tells a fault from a return, and nests") {
  const CopyPages pages(2);
  pages.protect(1, PROT_NONE);
  struct Job {
    volatile std::byte* at;
    bool reached;
    std::byte* inner;
    bool inner_result;
  } job = {pages.at, false, nullptr, true};
  const auto work = [](void* argument) {
    Job& j = *static_cast<Job*>(argument);
    if (j.inner != nullptr) {
      std::byte word[8];
      Job deeper = {j.inner, false, nullptr, true};
      const auto deep = [](void* a) { *static_cast<Job*>(a)->at = std::byte{2}; };
      j.inner_result = run_guarded(deep, &deeper) && copy_out(word, j.inner, 8);
    }
    *j.at = std::byte{1};
    j.reached = true;
  };
  CHECK(run_guarded(work, &job));
  CHECK(job.reached);
  job = {pages.at + kPage, false, nullptr, true};
  CHECK_FALSE(run_guarded(work, &job));
  CHECK_FALSE(job.reached);
  job = {pages.at, false, pages.at + kPage, true};  // the inner one faults, the outer goes on
  CHECK(run_guarded(work, &job));
  CHECK((job.reached && !job.inner_result));
  job = {pages.at + kPage, false, pages.at + kPage, true};  // both fault, in turn
  CHECK_FALSE(run_guarded(work, &job));
  CHECK((!job.reached && !job.inner_result));
}

TEST_CASE("many threads fault at the same time and each call returns its own result") {
  const CopyPages pages(2);
  pages.protect(1, PROT_NONE);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const std::vector<std::byte> source = pattern(256);
      for (int round = 0; round < 500; ++round) {
        std::byte* mine = pages.at + 256 * i;
        if (!copy_in(mine, source.data(), 256)) ++wrong;
        if (copy_in(pages.at + kPage + 256 * i, source.data(), 256)) ++wrong;
        if (std::memcmp(mine, source.data(), 256) != 0) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a reader that spins on the last byte, word or tail sees all bytes before") {
  // A message of `size` bytes all equal to the round; a reader that sees the last byte must see the
  // rest.
  struct Shape {
    size_t size, shift;
  };
  for (const Shape shape : {Shape{64, 0}, Shape{4096, 0}, Shape{61, 3}, Shape{1000, 5}, Shape{7, 0},
                            Shape{3000, 8}, Shape{14, 1}, Shape{136, 60}}) {
    const CopyPages pages(3);
    std::byte* at = pages.at + shape.shift;
    std::atomic<int> done_round = 0;
    int torn = 0;
    constexpr int kRounds = 3000;
    std::thread reader([&] {
      const std::byte* last = at + shape.size - 1;
      for (int round = 1; round <= kRounds; ++round) {
        const auto value = static_cast<std::byte>(round);
        for (int spins = 0; std::to_integer<uint8_t>(static_cast<std::byte>(__atomic_load_n(
                                reinterpret_cast<const uint8_t*>(last), __ATOMIC_ACQUIRE))) !=
                            std::to_integer<uint8_t>(value);)
          if (++spins % 1000 == 0) std::this_thread::yield();
        for (size_t i = 0; i < shape.size; ++i)
          torn += __atomic_load_n(reinterpret_cast<const uint8_t*>(at) + i, __ATOMIC_RELAXED) !=
                  std::to_integer<uint8_t>(value);
        done_round.store(round, std::memory_order_release);
      }
    });
    for (int round = 1; round <= kRounds; ++round) {
      const std::vector<std::byte> message(shape.size, static_cast<std::byte>(round));
      if (!copy_in(at, message.data(), shape.size)) std::abort();
      for (int spins = 0; done_round.load(std::memory_order_acquire) != round;)
        if (++spins % 1000 == 0) std::this_thread::yield();
    }
    reader.join();
    CHECK(torn == 0);
  }
}

TEST_CASE("an aligned word is never torn, in either direction") {
  const CopyPages pages(1);
  auto* word = reinterpret_cast<uint64_t*>(pages.at + 64 + 24);
  std::atomic<bool> stop = false;
  std::atomic<int> torn = 0;
  // The word changes between all zeroes and all ones while copies of many shapes pass over it.
  std::thread writer([&] {
    while (!stop) {
      __atomic_store_n(word, UINT64_MAX, __ATOMIC_RELAXED);
      __atomic_store_n(word, 0, __ATOMIC_RELAXED);
    }
  });
  for (int round = 0; round < 2000; ++round)
    for (size_t before = 0; before < 24; before += 3) {
      std::byte out[128] = {};
      const size_t size = before + 8 + static_cast<size_t>(round) % 64;
      if (!copy_out(out, reinterpret_cast<std::byte*>(word) - before, size)) std::abort();
      uint64_t seen = 0;
      std::memcpy(&seen, out + before, 8);
      torn += seen != 0 && seen != UINT64_MAX;
    }
  stop = true;
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("works on a thread whose alternate stack is small or absent") {
  const CopyPages pages(1);
  pages.protect(0, PROT_NONE);
  std::vector<char> stack(static_cast<size_t>(SIGSTKSZ) + 65536);
  std::thread([&] {
    std::byte word[8] = {};
    if (copy_in(pages.at, word, 8)) std::abort();
    stack_t alternate = {};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    stack_t before = {};
    if (sigaltstack(&alternate, &before) != 0) std::abort();
    for (int i = 0; i < 100; ++i)
      if (copy_in(pages.at, word, 8)) std::abort();
    if (sigaltstack(&before, nullptr) != 0 && sigaltstack(nullptr, nullptr) != 0) std::abort();
  }).join();
}

TEST_CASE("the floating point mode survives a fault") {
  const CopyPages pages(1);
  pages.protect(0, PROT_NONE);
#if defined(__x86_64__) && !defined(WEFT_PORTABLE_GUARD)
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // flush to zero, denormals are zero
  std::byte word[8] = {};
  const bool copied = copy_in(pages.at, word, 8);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  CHECK_FALSE(copied);
  CHECK((after & 0x8040) == 0x8040);
#endif
}
