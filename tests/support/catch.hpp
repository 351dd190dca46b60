// SPDX-License-Identifier: BSD-3-Clause
// The include of the unit test library, for Catch2 2 (Debian 12) and 3 (Debian 13): names that
// moved are found where the tests use them.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#define WEFT_CONTAINS Catch::Matchers::ContainsSubstring
#else
#include <catch2/catch.hpp>
#define WEFT_CONTAINS Catch::Matchers::Contains
#endif
