// SPDX-License-Identifier: BSD-3-Clause
// Between a store and a later load of two sides that each announce something and then look at what
// the other has announced: at least one of them sees the other's. ThreadSanitizer knows no fences
// (gcc says so with -Wtsan); for it this is a read-modify-write of a word that all fences of the
// process share, which orders no less.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define WEFT_FENCE_BY_WORD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_FENCE_BY_WORD 1
#endif
#endif

namespace weft::base {

inline void full_fence() noexcept {
#if defined(WEFT_FENCE_BY_WORD)
  static std::atomic<uint32_t> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace weft::base
