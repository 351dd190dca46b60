// SPDX-License-Identifier: BSD-3-Clause
// Catch2's main, compiled once for all test programs.
#define CATCH_CONFIG_MAIN
#include "tests/support/catch.hpp"
