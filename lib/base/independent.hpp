// SPDX-License-Identifier: BSD-3-Clause
// Before a loop: its iterations access disjoint memory, which the compiler cannot prove. For gcc
// only; clang checks at run time, and warns about gcc's pragma.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#define WEFT_INDEPENDENT _Pragma("GCC ivdep")
#else
#define WEFT_INDEPENDENT
#endif
