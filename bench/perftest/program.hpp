// SPDX-License-Identifier: BSD-3-Clause
// The main function of the eight measuring programs.
#pragma once

#include "bench/perftest/options.hpp"

namespace weft::bench {

// Exit code: 0 success, 1 an error or wrong data, 2 invalid options, 130 interrupted.
int run_program(Operation operation, Measure measure, int argc, char** argv);

}  // namespace weft::bench
