// SPDX-License-Identifier: BSD-3-Clause
// Checks of verbs_calls: a failure is printed, counted, and the next check follows.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>

inline int failures = 0;

#define CHECK(CONDITION)                                                                      \
  do {                                                                                        \
    errno = 0;                                                                                \
    if (!(CONDITION)) {                                                                       \
      ++failures;                                                                             \
      std::printf("%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, #CONDITION, errno); \
    }                                                                                         \
  } while (false)

// Without which nothing that follows makes sense.
#define REQUIRE(CONDITION)                        \
  do {                                            \
    const int before_require = failures;          \
    CHECK(CONDITION);                             \
    if (failures != before_require) std::exit(1); \
  } while (false)

// A call that returns a pointer is refused with this errno.
#define CHECK_REFUSED(ERROR, CALL)                                                           \
  do {                                                                                       \
    errno = 0;                                                                               \
    const auto* const result_of_call = CALL;                                                 \
    if (result_of_call != nullptr || errno != (ERROR)) {                                     \
      ++failures;                                                                            \
      std::printf("%s:%d: not refused with %s: %s (errno %d)\n", __FILE__, __LINE__, #ERROR, \
                  #CALL, errno);                                                             \
    }                                                                                        \
  } while (false)

// A call that returns its errno.
#define CHECK_ERROR(ERROR, CALL)                                                                   \
  do {                                                                                             \
    const int error_of_call = CALL;                                                                \
    if (error_of_call != (ERROR)) {                                                                \
      ++failures;                                                                                  \
      std::printf("%s:%d: not %s but %d: %s\n", __FILE__, __LINE__, #ERROR, error_of_call, #CALL); \
    }                                                                                              \
  } while (false)
