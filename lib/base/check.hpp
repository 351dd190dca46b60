// SPDX-License-Identifier: BSD-3-Clause
// Programmer errors: CHECK is always on and cheap, DCHECK is for dense checks in debug builds.
// Neither is for input: a bad argument is a Result, a bad packet is a counter.
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
