// SPDX-License-Identifier: BSD-3-Clause
// The fixed place is high and empty on x86-64 and aarch64, with and without address sanitizer;
// thread sanitizer refuses it (gcc's gives up on the attempt), so that there the memory lies
// anywhere and the hash is not comparable.
#include "tests/virtual_time/memory.hpp"

#include <sys/mman.h>

#include "lib/base/check.hpp"

#if defined(__SANITIZE_THREAD__)
#define WEFT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#endif
#endif

namespace weft::test {

Memory::Memory(uint32_t slot, size_t size) : size_(size) {
  constexpr uint64_t kBase = 0x2000'0000'0000, kStride = uint64_t{1} << 36;
  [[maybe_unused]] void* const wanted = reinterpret_cast<void*>(kBase + slot * kStride);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* at = MAP_FAILED;
#ifndef WEFT_THREAD_SANITIZER
  at = mmap(wanted, size, PROT_READ | PROT_WRITE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
#endif
  if (at == MAP_FAILED) at = mmap(nullptr, size, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  WEFT_CHECK(at != MAP_FAILED);
  data_ = static_cast<std::byte*>(at);
}

Memory::~Memory() { munmap(data_, size_); }

}  // namespace weft::test
