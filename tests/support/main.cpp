// SPDX-License-Identifier: BSD-3-Clause
// The main function of all test programs. Catch2 2 is compiled here, once; Catch2 3 is a library.
#define CATCH_CONFIG_MAIN
#include "tests/support/catch.hpp"

#if __has_include(<catch2/catch_all.hpp>)
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#endif
