// SPDX-License-Identifier: BSD-3-Clause
// The command line of weft_coll: nccl-tests' and nccom-test's options where they have one.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "weft/collective.hpp"

namespace weft::bench {

struct CollOptions {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;
  uint32_t root = 0;
  uint64_t min_bytes = 8, max_bytes = 64 << 20;
  uint64_t factor = 2;
  uint32_t iterations = 20, warmup = 5;
  bool check = true;
  uint64_t seed = 1;
  std::string algorithm;
  bool permute = false;   // exchange: each rank with random ones; else with those beside it
  bool discover = false;  // all_to_all_v: who receives does not know the counts
  // dispatch and combine: experts of a rank, experts that a token goes to, elements of a token.
  uint32_t experts_per_rank = 4, choices = 4, width = 1024;
  bool show_algorithm = false;
  bool learn = false;              // measure all algorithms first, and choose and predict by that
  std::vector<std::string> stats;  // "p50", "p99"
  std::string json_file;
  std::string trace_file;  // Chrome trace of all ranks
  std::string prometheus_file;
  double limit_s = 30;  // for each operation
  int64_t patience_ms = 2000;
  // The traffic class of the calls; and bytes and class of bulk calls beside them, if any.
  std::optional<uint32_t> traffic_class;
  uint64_t beside_bytes = 0;
  uint32_t beside_class = 3;
  uint32_t every_us = 0;  // from call to call; 0: one begins when the one before is done
  // For demonstrations: a rank that dies in the middle, and one that is late.
  std::optional<uint32_t> kill, late;
  uint32_t late_us = 10'000;

  // How the ranks come to be.
  std::optional<uint32_t> ranks;  // so many processes of this host, or as the environment says
  std::string store;
  CommunicatorOptions communicator;
};

// Words of the command line, which the options below are parsed into.
struct CollWords {
  std::string collective = "all_reduce", type = "fp32", op = "sum", check = "random",
              numerics = "run", min_bytes = "8", max_bytes = "64M", beside = "0";
};

void add_call_options(CLI::App& app, CollOptions& options, CollWords& words);
// What goes where: the seed, and of dispatch and combine experts and tokens.
void add_choice_options(CLI::App& app, CollOptions& options);
void add_run_options(CLI::App& app, CollOptions& options, CollWords& words);
// Errors: invalid_argument, with the words that there are.
Result<void> finish_options(CollOptions& options, const CollWords& words);

// As it is called on the command line.
std::string operation_name(const CollOptions& options);
// exchange: whom a rank sends to and receives from; with one rank that one, else another.
struct Partners {
  uint32_t target = 0, source = 0;
};
Partners partners_of(const CollOptions& options, uint32_t ranks, uint32_t rank);
bool has_root(Collective collective);
bool has_in_place(Collective collective);
bool is_of_experts(Collective collective);  // dispatch, combine
// False of exchange and barrier, which choose nothing.
bool has_schedules(Collective collective);

// 64, 64K, 64KiB, 1M, 1G: binary units. Errors: invalid_argument.
Result<uint64_t> parse_bytes(const std::string& text);
// Whether `count` elements per rank make up a buffer of ranks * count.
bool is_per_rank(Collective collective);
// Elements as the call counts them, for buffers of (at most) so many bytes: the larger buffer. Of
// dispatch and combine the tokens of a rank, and the bytes of all rows that go to experts.
uint64_t count_for(const CollOptions& options, uint32_t ranks, uint64_t bytes);
// The larger buffer's size for this count.
uint64_t bytes_for(const CollOptions& options, uint32_t ranks, uint64_t count);
// What algorithm bandwidth is multiplied with to get what a link carries.
double bus_factor(Collective collective, uint32_t ranks);

}  // namespace weft::bench
