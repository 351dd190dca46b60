// SPDX-License-Identifier: BSD-3-Clause
// A store-load fence, for two sides that each store a flag and then load the other's (Dekker): at
// least one of them sees the other's store. ThreadSanitizer does not support fences (gcc: -Wtsan);
// with it this is a read-modify-write of a word shared by all fences of the process.
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
