// SPDX-License-Identifier: BSD-3-Clause
// The command, in four steps.
#include "tools/sim/command_run.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace weft::bench {
namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "weft_sim: %s\n", error.message.c_str());
  return 2;
}

// One seed writes into the folder itself, several into folders of their own.
Result<void> write(const std::vector<Comparison>& comparisons, const std::string& folder) {
  for (const Comparison& comparison : comparisons) {
    const std::string own =
        comparisons.size() == 1 ? folder : folder + "/seed_" + std::to_string(comparison.seed);
    Result<void> written = write_results(comparison, own);
    if (!written) return written;
  }
  return write_page(comparisons, folder);
}

}  // namespace

int command_run(const RunCommand& command) {
  Result<std::vector<Comparison>> comparisons = plan(command);
  if (!comparisons) return fail(comparisons.error());
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  Result<void> ran = run_batch(*comparisons, command.jobs != 0 ? command.jobs : cores);
  if (!ran) return fail(ran.error());
  if (!command.out.empty()) {
    Result<void> written = write(*comparisons, command.out);
    if (!written) return fail(written.error());
  }
  print_tables(*comparisons);
  if (!command.out.empty()) std::printf("\n%s/report.html has the plots\n", command.out.c_str());
  return 0;
}

}  // namespace weft::bench
