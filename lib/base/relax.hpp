// SPDX-License-Identifier: BSD-3-Clause
// One turn of a loop that waits for another core: leaves execution units to the other hyper-thread.
#pragma once

namespace weft::base {

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace weft::base
