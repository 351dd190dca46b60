// SPDX-License-Identifier: BSD-3-Clause
// Says before a loop that its rounds do not touch each other's memory, where the compiler cannot
// see that. clang looks at run time, and warns of what gcc calls it.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#define WEFT_INDEPENDENT _Pragma("GCC ivdep")
#else
#define WEFT_INDEPENDENT
#endif
