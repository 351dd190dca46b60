// SPDX-License-Identifier: BSD-3-Clause
// Skips a test that this machine cannot run, because Catch2 2 cannot: prints a line and returns.
// ctest counts the test as skipped by that line; ./dev test fails unless its ctest name is listed
// in tests/permitted_skips.txt. A macro, because `return` must leave the test case.
#pragma once

#include <cstdio>
#include <string>

#define WEFT_SKIP(name, reason)                                                               \
  do {                                                                                        \
    std::printf("SKIPPED: %s: %s\n", std::string(name).c_str(), std::string(reason).c_str()); \
    std::fflush(stdout);                                                                      \
    return;                                                                                   \
  } while (false)
