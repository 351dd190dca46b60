// SPDX-License-Identifier: BSD-3-Clause
// Parsing weft_coll's command line.
#include "tools/coll/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "bench/perftest/command_line.hpp"
#include "lib/base/random.hpp"
#include "tools/coll/msccl_xml.hpp"

namespace weft::bench {
namespace {

// Operation names on the command line: as in the library, except that exchange has two names.
constexpr std::string_view kToNext = "sendrecv", kPermute = "permute";
std::vector<std::string_view> names_of(Collective collective) {
  if (collective == Collective::exchange) return {kToNext, kPermute};
  return {name(collective)};
}

Result<Collective> parse_operation(const std::string& word) {
  std::string known;
  for (int i = 0; i <= static_cast<int>(Collective::barrier); ++i)
    for (const std::string_view each : names_of(static_cast<Collective>(i))) {
      if (word == each) return static_cast<Collective>(i);
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
  return Error{Code::invalid_argument, "no operation '" + word + "'; there are: " + known};
}

// Bytes of a token's rows.
uint64_t token_bytes(const CollOptions& o) {
  return uint64_t{o.choices} * o.width * size_of(o.type);
}

}  // namespace

std::string operation_name(const CollOptions& options) {
  if (options.collective != Collective::exchange) return std::string(name(options.collective));
  return std::string(options.permute ? kPermute : kToNext);
}

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

bool has_in_place(Collective collective) {
  return collective != Collective::all_to_all_v && !uses_experts(collective) &&
         has_schedules(collective);
}

bool uses_experts(Collective collective) {
  return collective == Collective::dispatch || collective == Collective::combine;
}

bool has_schedules(Collective collective) {
  return collective != Collective::exchange && collective != Collective::barrier;
}

Partners partners_of(const CollOptions& options, uint32_t ranks, uint32_t rank) {
  std::vector<uint32_t> circle(ranks);  // each rank sends to the next one in it
  std::iota(circle.begin(), circle.end(), 0);
  base::Random random(options.seed);
  for (uint32_t i = options.permute ? ranks : 1; i > 1; --i)
    std::swap(circle[i - 1], circle[random.below(i)]);
  const size_t place =
      static_cast<size_t>(std::find(circle.begin(), circle.end(), rank) - circle.begin());
  return {circle[(place + 1) % ranks], circle[(place + ranks - 1) % ranks]};
}

void add_call_options(CLI::App& app, CollOptions& o, RawCollOptions& raw) {
  app.add_option("operation", raw.collective,
                 "all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, "
                 "all_gather_v, reduce_scatter_v, all_to_all_v, sendrecv (each rank to the next), "
                 "permute (each to a random one, by --seed), barrier, dispatch, combine");
  app.add_option(
      "--type,--datatype", raw.type,
      "uint8, int8, uint16, int16, uint32, int32, uint64, int64, fp16, bf16, fp32, fp64, "
      "fp8_e4m3, fp8_e5m2, and blocks of 32 values: mxfp8_e4m3, mxfp8_e5m2");
  app.add_option_function<std::string>(
         "-o,--op",
         [&raw](const std::string& word) {
           const bool operation = !!parse_operation(word);
           (operation ? raw.collective : raw.op) = word;
         },
         "Reduction: sum, prod, min, max, avg; or the operation, as above")
      ->default_str(raw.op);
  app.add_option("--root", o.root, "Root rank of broadcast and reduce");
  app.add_option("--algorithm", o.algorithm,
                 "Algorithm, as explain lists them: ring, direct ...; or the file of a plan of "
                 "MSCCL (default: chosen by size)");
  app.add_option(
      "-r,--ranks,--nworkers", o.ranks,
      "Processes to start on this host (default: the launcher's number; without one 2, explain 4)");
  // in_our_words() has replaced these two.
  app.add_option("-g,--ngpus", raw.gpus,
                 "As in nccl-tests: processes to start; -r is the root then");
  app.add_option("-t,--nthreads", raw.threads, "As in nccl-tests: times as many processes");
}

void add_choice_options(CLI::App& app, CollOptions& o) {
  app.add_option("--seed", o.seed,
                 "Seed of the random data, of permute and of the choice of experts");
  app.add_option("--experts", o.experts_per_rank, "dispatch, combine: experts per rank")
      ->check(CLI::Range(1, 4096));
  app.add_option("--choices", o.choices, "dispatch, combine: experts per token (top-k)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--width", o.width,
                 "dispatch, combine: elements per token; sizes are of all rows that go to experts")
      ->check(CLI::Range(1, 1 << 24));
}

namespace {

void add_file_options(CLI::App& app, CollOptions& o) {
  app.add_option("--report-to-json-file", o.files.json, "Write all figures to this file as JSON");
  app.add_option("--trace", o.files.trace,
                 "Write the last 256 operations and 4,096 pieces of every rank to this file, for "
                 "ui.perfetto.dev; if an operation fails, rank R writes its own to FILE.R");
  app.add_option("--dump", o.communicator.dump,
                 "Write the flight record of rank R of communicator N to FILE.N.R, at the end or "
                 "on a failure, for weft_coll merge; the first communicator is 0");
  app.add_option("--prometheus", o.files.prometheus,
                 "Write the totals of rank R to FILE.R at the end, as Prometheus metrics");
}

void add_fault_options(CLI::App& app, InjectedFaults& faults) {
  app.add_option("--kill", faults.kill,
                 "Fault injection: this rank kills itself during the second size");
  app.add_option("--late", faults.late,
                 "Fault injection: this rank enters each measured call late");
  app.add_option("--late-by", faults.late_us, "How late, in microseconds")
      ->check(CLI::Range(0, 10'000'000));
}

}  // namespace

void add_run_options(CLI::App& app, CollOptions& o, RawCollOptions& raw) {
  add_choice_options(app, o);
  app.add_option("-d,--device", o.communicator.device,
                 "Device string, like roce+shm:job (default: WEFT_DEVICE, or roce+udp:lo)");
  app.add_option("-b,--minbytes", raw.min_bytes, "Smallest size of the larger buffer: 8, 64K, 1M");
  app.add_option("-e,--maxbytes", raw.max_bytes, "Largest size");
  app.add_option("-f,--stepfactor", o.factor, "Sizes grow by this factor")
      ->check(CLI::Range(2, 1024));
  app.add_option("-i,--stepbytes", raw.step_bytes,
                 "Sizes grow by so many bytes instead; 0: by the factor");
  app.add_option("-n,--iters", o.iterations, "Measured calls of each size")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("-w,--warmup_iters", o.warmup, "Calls of each size before the measured ones")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("-c,--check", raw.check,
                 "random: one more call per size whose every element is compared; all_ones: the "
                 "same with ones for data; none: no check");
  app.add_option("--stats", o.stats, "Further columns: p50 p99")
      ->check(CLI::IsMember({"p50", "p99"}))
      ->default_str("");
  add_security(app, o.communicator.security);
  app.add_flag("--discover", o.discover, "all_to_all_v: receivers do not know the counts before");
  app.add_flag("--show-algorithm", o.show_algorithm, "A column with the algorithm");
  add_file_options(app, o);
  app.add_option("--numerics", raw.numerics,
                 "Reproducible sums: fast: no promise; run: the same bits in every run; any: also "
                 "whatever the size and algorithm");
  app.add_option("--limit", o.limit_s, "Timeout of an operation, in seconds");
  add_fault_options(app, o.faults);
  app.add_option(
      "--store", o.store,
      "Rendezvous of the ranks: file:DIRECTORY or tcp:HOST:PORT (default: WEFT_STORE, the "
      "launcher's address, or a new folder)");
  app.add_option(
      "--network", o.communicator.topology,
      "Choose algorithms by their predicted time on this topology (as for sim), one chip per "
      "rank (default: by size)");
  app.add_flag(
      "--learn", o.learn,
      "With --network: call every algorithm at every size first, correct the predictions by the "
      "measured times, then measure the chosen algorithms");
  app.add_option("--patience", o.patience_ms,
                 "Dead peer timeout: milliseconds after which a silent rank counts as dead")
      ->check(CLI::Range(10, 600'000));
  app.add_option("--class", o.traffic_class,
                 "Traffic class of the measured calls: 0 (highest priority) to 3 (default: 2)")
      ->check(CLI::Range(0, 3));
  app.add_option(
      "--background,--beside", raw.background,
      "Run all-reduces of this size, like 8M, in another class during the measurement; 0: none");
  app.add_option("--background-class,--beside-class", o.background.traffic_class,
                 "Traffic class of the background all-reduces")
      ->check(CLI::Range(0, 3));
  app.add_option(
         "--every", o.every_us,
         "Interval of calls in microseconds, on one host, with progress in between; a late start "
         "counts as time of the call; 0: back to back")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--slots", o.communicator.slots, "Pieces in flight to each peer");
  app.add_option("--slot-bytes", o.communicator.slot_bytes, "Bytes per piece");
}

Result<uint64_t> parse_bytes(const std::string& text) {
  char* end = nullptr;
  uint64_t value = std::strtoull(text.c_str(), &end, 10);
  const std::string unit = end;
  int shift = 0;
  for (const auto& [letter, bits] : {std::pair('K', 10), std::pair('M', 20), std::pair('G', 30)})
    if (!unit.empty() && std::toupper(unit[0]) == letter) shift = bits;
  const std::string rest = shift != 0 ? unit.substr(1) : unit;
  const bool fits = end != text.c_str() && value <= (uint64_t{1} << 40 >> shift);
  if (fits && (rest.empty() || rest == "B" || rest == "iB")) return value << shift;
  return Error{Code::invalid_argument, "'" + text + "' is no size: write 64, 64K, 1M or 1G"};
}

namespace {

// A plan that a file names becomes an algorithm.
Result<void> load_plans(std::string& algorithm) {
  if (const Result<void> loaded = load_plan_folder(); !loaded) return loaded;
  if (!is_plan_file(algorithm)) return {};
  const Result<std::string> loaded = load_plan(algorithm);
  if (!loaded) return loaded.error();
  algorithm = *loaded;
  return {};
}

}  // namespace

Result<void> finish_options(CollOptions& o, const RawCollOptions& raw) {
  if (const Result<void> loaded = load_plans(o.algorithm); !loaded) return loaded;
  Result<Collective> collective = parse_operation(raw.collective);
  if (!collective) return collective.error();
  Result<DataType> type = collective::parse_name(raw.type, DataType::mxfp8_e5m2, "type");
  if (!type) return type.error();
  Result<ReduceOp> op = collective::parse_name(raw.op, ReduceOp::avg, "reduction");
  if (!op) return op.error();
  Result<uint64_t> low = parse_bytes(raw.min_bytes), high = parse_bytes(raw.max_bytes);
  if (!low) return low.error();
  if (!high) return high.error();
  if (raw.check != "random" && raw.check != "all_ones" && raw.check != "none" && raw.check != "0" &&
      raw.check != "1")
    return Error{Code::invalid_argument, "--check takes random, all_ones or none"};
  const Result<uint64_t> step = parse_bytes(raw.step_bytes);
  if (!step) return step.error();
  o.step_bytes = *step;
  Result<Numerics> numerics =
      collective::parse_name(raw.numerics, Numerics::any, "promise of bits");
  if (!numerics) return numerics.error();
  Result<uint64_t> background = parse_bytes(raw.background);
  if (!background) return background.error();
  o.background.bytes = *background;
  const uint32_t usual = o.communicator.traffic_class;
  if (o.traffic_class) o.communicator.more_classes.push_back(*o.traffic_class);
  if (o.background.bytes > 0) {
    o.communicator.more_classes.push_back(o.background.traffic_class);
    if (o.background.traffic_class == usual || o.background.traffic_class == o.traffic_class)
      return Error{
          Code::invalid_argument,
          "--background-class " + std::to_string(o.background.traffic_class) +
              " is also the class of the measured calls (--class, or 2): choose another one"};
  }
  if (o.learn && o.communicator.topology.empty())
    return Error{Code::invalid_argument,
                 "--learn corrects predictions, which need a topology: add --network NAME"};
  if (!has_schedules(*collective) && !o.algorithm.empty())
    return Error{Code::invalid_argument,
                 raw.collective + " has a single algorithm: leave out --algorithm"};
  o.collective = *collective;
  o.permute = raw.collective == kPermute;
  o.type = *type;
  o.op = *op;
  o.min_bytes = *low;
  o.max_bytes = std::max(*low, *high);
  if (o.collective == Collective::barrier) o.min_bytes = o.max_bytes = 0;
  if (uses_experts(o.collective) && o.min_bytes > 0) {  // at least one token
    o.min_bytes = std::max(o.min_bytes, token_bytes(o));
    o.max_bytes = std::max(o.min_bytes, o.max_bytes);
  }
  o.check = raw.check != "none" && raw.check != "0";
  o.all_ones = raw.check == "all_ones";
  o.communicator.numerics = *numerics;
  o.communicator.patience = Duration::from_ms(o.patience_ms);
  o.communicator.limit = Duration::from_ms(static_cast<int64_t>(o.limit_s * 1000));
  return {};
}

uint64_t size_after(const CollOptions& options, uint64_t bytes) {
  return options.step_bytes > 0 ? bytes + options.step_bytes : bytes * options.factor;
}

uint64_t count_for(const CollOptions& options, uint32_t ranks, uint64_t bytes) {
  if (uses_experts(options.collective)) return bytes / token_bytes(options);
  return bytes / size_of(options.type) / (is_per_rank(options.collective) ? ranks : 1);
}

uint64_t bytes_for(const CollOptions& options, uint32_t ranks, uint64_t count) {
  if (uses_experts(options.collective)) return count * token_bytes(options);
  return count * size_of(options.type) * (is_per_rank(options.collective) ? ranks : 1);
}

}  // namespace weft::bench
