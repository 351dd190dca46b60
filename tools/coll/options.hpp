// SPDX-License-Identifier: BSD-3-Clause
// The command line of weft_coll: the options of nccl-tests and nccom-test where they exist.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/collective/plan/names.hpp"
#include "weft/collective.hpp"

namespace weft::bench {

// Output files; empty: not written.
struct CollFiles {
  std::string json;
  std::string trace;  // Chrome trace of all ranks
  std::string prometheus;
};

// All-reduces that run during the measurement; bytes 0: none.
struct BackgroundOptions {
  uint64_t bytes = 0;
  uint32_t traffic_class = 3;
};

struct InjectedFaults {
  std::optional<uint32_t> kill, late;  // ranks
  uint32_t late_us = 10'000;
};

struct CollOptions {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;
  uint32_t root = 0;
  uint64_t min_bytes = 8, max_bytes = 64 << 20;
  uint64_t factor = 2, step_bytes = 0;  // 0: sizes grow by the factor
  uint32_t iterations = 20, warmup = 5;
  bool check = true, all_ones = false;
  uint64_t seed = 1;
  std::string algorithm;
  bool permute = false;   // exchange: with random partners instead of neighbours
  bool discover = false;  // all_to_all_v: receivers do not know the counts
  // dispatch and combine: experts per rank, experts per token, elements per token.
  uint32_t experts_per_rank = 4, choices = 4, width = 1024;
  bool show_algorithm = false;
  bool learn = false;              // measure all algorithms first, and correct predictions by that
  std::vector<std::string> stats;  // "p50", "p99"
  CollFiles files;
  double limit_s = 30;  // timeout of each operation
  int64_t patience_ms = 2000;
  std::optional<uint32_t> traffic_class;  // of the measured calls
  BackgroundOptions background;
  uint32_t every_us = 0;  // interval of calls; 0: back to back
  InjectedFaults faults;
  std::optional<uint32_t> ranks;  // processes to start on this host; unset: from the environment
  std::string store;
  CommunicatorOptions communicator;
};

// Option values as text, before finish_options().
struct RawCollOptions {
  std::string collective = "all_reduce", type = "fp32", op = "sum", check = "random",
              numerics = "run", min_bytes = "8", max_bytes = "64M", step_bytes = "0",
              background = "0";
  uint32_t gpus = 1, threads = 1;
};

void add_call_options(CLI::App& app, CollOptions& options, RawCollOptions& raw);
// The seed, and experts and tokens of dispatch and combine.
void add_choice_options(CLI::App& app, CollOptions& options);
void add_run_options(CLI::App& app, CollOptions& options, RawCollOptions& raw);
// Errors: invalid_argument; the message lists the known names.
Result<void> finish_options(CollOptions& options, const RawCollOptions& raw);

// The operation's name on the command line.
std::string operation_name(const CollOptions& options);
// exchange: the ranks that a rank sends to and receives from; itself if there is one rank only.
struct Partners {
  uint32_t target = 0, source = 0;
};
Partners partners_of(const CollOptions& options, uint32_t ranks, uint32_t rank);
bool has_root(Collective collective);
bool has_in_place(Collective collective);
bool uses_experts(Collective collective);  // dispatch, combine
// False for exchange and barrier, which have no algorithms to choose from.
bool has_schedules(Collective collective);

// 64, 64K, 64KiB, 1M, 1G: binary units. Errors: invalid_argument.
Result<uint64_t> parse_bytes(const std::string& text);
using collective::is_per_rank;
// The next size of a measurement.
uint64_t size_after(const CollOptions& options, uint64_t bytes);
// The call's count for a larger buffer of at most `bytes`. dispatch and combine: tokens per rank,
// for `bytes` of all rows that go to experts.
uint64_t count_for(const CollOptions& options, uint32_t ranks, uint64_t bytes);
// The larger buffer's size for this count.
uint64_t bytes_for(const CollOptions& options, uint32_t ranks, uint64_t count);
using collective::bus_factor;

}  // namespace weft::bench
