// SPDX-License-Identifier: BSD-3-Clause
// Guarded accesses without assembly: each access records a jump target (sigsetjmp without the
// signal mask, about ten nanoseconds) and the user's address range; the handler jumps there. The
// order of stores is that of guarded_x86_64.cpp, by atomics: natural pieces up to an 8-byte
// boundary, words, and release stores for the last word and each piece after it. Not for
// ThreadSanitizer, whose handler does not support the jump.
#include "lib/memory/guarded_access.hpp"

#if !WEFT_GUARD_X86_64

#include <csetjmp>
#include <cstdint>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/memory/guarded_copy.hpp"

// Sanitizers must not check user memory: it may be poisoned, and data races on it are legal.
#define WEFT_UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined")))

extern "C" __attribute__((weak)) void __asan_handle_no_return();

namespace weft::memory {
namespace {

struct Guard {
  sigjmp_buf back;
  uintptr_t low, high;  // the user's range: only faults in it are handled
  Guard* outer;
};
constinit thread_local Guard* guard __attribute__((tls_model("initial-exec"))) = nullptr;

template <class Access>
WEFT_UNWATCHED bool guarded(const std::byte* address, size_t size, Access& access) noexcept {
  Guard here;
  here.low = reinterpret_cast<uintptr_t>(address);
  here.high = here.low + size;
  here.outer = guard;
  Guard* volatile outer = guard;  // survives the jump
  if (sigsetjmp(here.back, 0) != 0) {
    guard = outer;
    if (__asan_handle_no_return != nullptr) __asan_handle_no_return();
    return false;
  }
  __atomic_store_n(&guard, &here, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  access();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  guard = here.outer;
  return true;
}

template <class T>
WEFT_UNWATCHED void move_piece(std::byte*& to, const std::byte*& from, size_t& size, int order) {
  // Only the user's side is aligned; no other thread accesses the other side.
  struct [[gnu::packed, gnu::may_alias]] Anywhere {
    T value;
  };
  const bool last = order == __ATOMIC_RELEASE;
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T) == 0) {
    T value = reinterpret_cast<const volatile Anywhere*>(from)->value;
    T* word = reinterpret_cast<T*>(to);
    last ? __atomic_store_n(word, value, __ATOMIC_RELEASE)
         : __atomic_store_n(word, value, __ATOMIC_RELAXED);
  } else {
    const T value = __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_RELAXED);
    reinterpret_cast<volatile Anywhere*>(to)->value = value;
  }
  to += sizeof(T);
  from += sizeof(T);
  size -= sizeof(T);
}

// `user`: the address whose alignment counts, `to` for copy_in, `from` for copy_out.
WEFT_UNWATCHED void copy(std::byte* to, const std::byte* from, size_t size, uintptr_t user) {
  const int relaxed = __ATOMIC_RELAXED;
  const int release = __ATOMIC_RELEASE;
  const size_t head = size_t{8} - user % 8;
  const int order = size < head + 8 ? release : relaxed;  // no whole word: every piece in order
  if (user % 2 != 0 && size >= 1) move_piece<uint8_t>(to, from, size, order), user += 1;
  if (user % 4 != 0 && size >= 2) move_piece<uint16_t>(to, from, size, order), user += 2;
  if (user % 8 != 0 && user % 4 == 0 && size >= 4)
    move_piece<uint32_t>(to, from, size, order), user += 4;
  while (size >= 16) move_piece<uint64_t>(to, from, size, relaxed);
  if (size >= 8) move_piece<uint64_t>(to, from, size, release);
  if (size >= 4) move_piece<uint32_t>(to, from, size, release);
  if (size >= 2) move_piece<uint16_t>(to, from, size, release);
  if (size >= 1) move_piece<uint8_t>(to, from, size, release);
}

}  // namespace

bool copy_in(std::byte* to, const std::byte* from, size_t size) noexcept {
  WEFT_DCHECK(size <= kLargestCopy);
  auto access = [=] { copy(to, from, size, reinterpret_cast<uintptr_t>(to)); };
  return guarded(to, size, access);
}

bool copy_out(std::byte* to, const std::byte* from, size_t size) noexcept {
  WEFT_DCHECK(size <= kLargestCopy);
  auto access = [=] { copy(to, from, size, reinterpret_cast<uintptr_t>(from)); };
  return guarded(from, size, access);
}

bool compare_swap(std::byte* address, uint64_t expected, uint64_t desired,
                  uint64_t* original) noexcept {
  WEFT_DCHECK(reinterpret_cast<uintptr_t>(address) % 8 == 0);
  auto access = [=]() WEFT_UNWATCHED {
    uint64_t found = expected;
    __atomic_compare_exchange_n(reinterpret_cast<uint64_t*>(address), &found, desired, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    *original = found;
  };
  return guarded(address, 8, access);
}

bool fetch_add(std::byte* address, uint64_t addend, uint64_t* original) noexcept {
  WEFT_DCHECK(reinterpret_cast<uintptr_t>(address) % 8 == 0);
  auto access = [=]() WEFT_UNWATCHED {
    *original = __atomic_fetch_add(reinterpret_cast<uint64_t*>(address), addend, __ATOMIC_SEQ_CST);
  };
  return guarded(address, 8, access);
}

bool probe(std::byte* address, bool write) noexcept {
  auto access = [=]() WEFT_UNWATCHED {
    auto* byte = reinterpret_cast<uint8_t*>(address);
    if (write) {
      __atomic_fetch_add(byte, uint8_t{0}, __ATOMIC_RELAXED);
    } else {
      static_cast<void>(*const_cast<volatile uint8_t*>(byte));
    }
  };
  return guarded(address, 1, access);
}

bool run_guarded(void (*fn)(void*), void* argument) noexcept {
  WEFT_DCHECK(fn != nullptr);
  auto access = [=] { fn(argument); };
  return guarded(nullptr, SIZE_MAX, access);
}

void prepare_guarded_access() noexcept {}

bool recover_guarded_access(const siginfo_t* info, void*) noexcept {
  Guard* here = guard;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (here == nullptr) return false;
  const bool ours = address >= here->low && address < here->high;
  if (!ours && !is_beyond_pages(info, here->high)) return false;
  siglongjmp(here->back, 1);
}

}  // namespace weft::memory

#endif  // !WEFT_GUARD_X86_64
