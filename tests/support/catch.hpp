// SPDX-License-Identifier: BSD-3-Clause
// The include of the unit test library, for Catch2 2 (Debian 12) and 3.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
