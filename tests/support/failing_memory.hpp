// SPDX-License-Identifier: BSD-3-Clause
// Allocations that fail where a test wants it: malloc and operator new of the whole program. One
// source file of a program includes this. Sanitizers have their own malloc; there operator new
// alone can fail.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "tests/support/sanitized.hpp"

namespace weft::test::memory {

inline std::atomic<bool> armed{false};       // allocations are counted, and may fail
inline std::atomic<bool> lasting{false};     // all from there on fail, not that one alone
inline std::atomic<uint64_t> fails_at{0};    // the ordinal of the first that fails
inline std::atomic<uint64_t> asked{0};       // while armed
inline std::atomic<uint64_t> refused{0};     // of them
inline std::atomic<int64_t> outstanding{0};  // blocks that were not given back

inline bool refuse() noexcept {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const uint64_t ordinal = asked.fetch_add(1);
  if (ordinal != fails_at && !(lasting && ordinal > fails_at)) return false;
  ++refused;
  errno = ENOMEM;
  return true;
}
inline void* took(void* block) noexcept {
  if (block != nullptr) outstanding.fetch_add(1, std::memory_order_relaxed);
  return block;
}
inline void gave(void* block) noexcept {
  if (block != nullptr) outstanding.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace weft::test::memory

namespace memory = weft::test::memory;

#if defined(WEFT_SANITIZED)
__attribute__((noinline)) void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return memory::refuse() ? nullptr : memory::took(std::malloc(size));
}
__attribute__((noinline)) void* operator new(size_t size) {
  if (void* const block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(size_t size, std::align_val_t align) {
  const auto at = static_cast<size_t>(align);
  void* const block =
      memory::refuse() ? nullptr : memory::took(std::aligned_alloc(at, (size + at - 1) / at * at));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
__attribute__((noinline)) void operator delete(void* block) noexcept {
  memory::gave(block);
  std::free(block);
}
void operator delete(void* block, size_t) noexcept { operator delete(block); }
void operator delete(void* block, std::align_val_t) noexcept { operator delete(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { operator delete(block); }
#else
extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t count, size_t size);
extern "C" void* __libc_realloc(void* block, size_t size);
extern "C" void* __libc_memalign(size_t align, size_t size);
extern "C" void __libc_free(void* block);
extern "C" void* malloc(size_t size) {  // operator new calls it
  return memory::refuse() ? nullptr : memory::took(__libc_malloc(size));
}
extern "C" void* calloc(size_t count, size_t size) {
  return memory::refuse() ? nullptr : memory::took(__libc_calloc(count, size));
}
extern "C" void* realloc(void* block, size_t size) {
  if (memory::refuse()) return nullptr;
  void* const moved = __libc_realloc(block, size);
  if (block == nullptr) return memory::took(moved);
  if (size == 0) memory::gave(block);
  return moved;
}
extern "C" void* aligned_alloc(size_t align, size_t size) {
  return memory::refuse() ? nullptr : memory::took(__libc_memalign(align, size));
}
extern "C" int posix_memalign(void** at, size_t align, size_t size) {
  *at = memory::refuse() ? nullptr : memory::took(__libc_memalign(align, size));
  return *at != nullptr ? 0 : ENOMEM;
}
extern "C" void free(void* block) {
  memory::gave(block);
  __libc_free(block);
}
#endif
