// SPDX-License-Identifier: BSD-3-Clause
// Measures the bandwidth of RDMA write between two processes; `--help` lists the options,
// perftest's.
#include "bench/perftest/program.hpp"

int main(int argc, char** argv) {
  using namespace weft::bench;
  return run_program(Operation::write, Measure::bandwidth, argc, argv);
}
