// SPDX-License-Identifier: BSD-3-Clause
// Assertions on weft's own invariants. WEFT_CHECK is always on: for control paths. WEFT_DCHECK is
// on in Debug, sanitizer, fuzz and swarm builds and costs nothing in release. Neither is for input:
// a caller's bad argument is a Result, a peer's bad packet is a counter.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace weft::base {
[[noreturn]] inline void check_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "weft: internal check failed: %s at %s:%d\n", what, file, line);
  std::abort();
}
}  // namespace weft::base

#define WEFT_CHECK(x) \
  (__builtin_expect(!!(x), 1) ? (void)0 : ::weft::base::check_failed(#x, __FILE__, __LINE__))
#ifdef NDEBUG
#define WEFT_DCHECK(x) ((void)sizeof(!(x)))
#else
#define WEFT_DCHECK(x) WEFT_CHECK(x)
#endif

namespace weft::base {
// Whether WEFT_DCHECK is on: functions that only assert return at once where it is off.
#ifdef NDEBUG
inline constexpr bool kChecksInvariants = false;
#else
inline constexpr bool kChecksInvariants = true;
#endif
}  // namespace weft::base
