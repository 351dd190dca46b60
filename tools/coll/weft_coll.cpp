// SPDX-License-Identifier: BSD-3-Clause
// Collectives as a program: `weft_coll OPERATION` measures one over a range of sizes, between
// processes that it or a launcher starts; `weft_coll explain OPERATION` prints schedules;
// `weft_coll sim OPERATION` predicts their time on a given network; `weft_coll grid` measures the
// quality of choices and predictions; `weft_coll kernels` measures the arithmetic; `weft_coll merge
// DUMP...` diagnoses mismatches, stragglers and slow links.
// link: chart
#include <cstdio>

#include "bench/perftest/command_line.hpp"
#include "tools/coll/diagnose.hpp"
#include "tools/coll/explain.hpp"
#include "tools/coll/foreign_words.hpp"
#include "tools/coll/grid.hpp"
#include "tools/coll/kernels.hpp"
#include "tools/coll/measure.hpp"
#include "tools/coll/options.hpp"
#include "tools/coll/placement.hpp"
#include "tools/coll/simulate.hpp"

namespace {

using namespace weft;

int run(const bench::CollOptions& options) {
  Result<std::optional<bench::Placement>> placement = bench::placement_from_environment(options);
  if (!placement) {
    std::fprintf(stderr, "%s\n", placement.error().message.c_str());
    return 2;
  }
  const auto measure = [&](const bench::Placement& rank) {
    return bench::measure_collective(options, rank);
  };
  return *placement ? bench::run_rank(**placement, measure)
                    : bench::run_local_ranks(options, measure);
}

void add_simulate_options(CLI::App& app, bench::SimulateOptions& simulate_options) {
  app.add_option("--topology", simulate_options.topologies,
                 "Files, or names of scenarios/collectives, separated by commas; a product's name "
                 "stands for all its profiles: trn3-nl72x2")
      ->delimiter(',')
      ->required();
  app.add_option("--size", simulate_options.sizes,
                 "Sizes of the larger buffer, separated by commas")
      ->delimiter(',');
  app.add_option("--dead", simulate_options.dead,
                 "Failed lanes: MEDIUM:CHIP:LANES, or MEDIUM:CHIP-CHIP:LANES for one link; as in "
                 "backplane:5:20,cross-rack:3-75:all (default: none)")
      ->delimiter(',');
  app.add_flag("--packets", simulate_options.packets,
               "Use the packet model (store and forward) instead of the flow model");
  app.add_option(
      "--plot", simulate_options.plot_file,
      "Write an SVG chart to this file: time over size of each algorithm, and the bound");
  app.add_flag("--best", simulate_options.best_only, "Only the fastest algorithm of each size");
}

void add_grid_options(CLI::App& app, bench::GridOptions& grid_options) {
  app.add_option("--topology", grid_options.networks,
                 "As for sim; or switch:CHIPS: chips of 50 GB/s each on one switch")
      ->delimiter(',')
      ->required();
  app.add_option("--operation", grid_options.operations,
                 "Operations, separated by commas (default: all with a lower bound)")
      ->delimiter(',');
  app.add_option("--size", grid_options.sizes, "Sizes of the larger buffer, separated by commas")
      ->delimiter(',');
  app.add_option("--max-over-best,--most-over-best", grid_options.max_over_best,
                 "Limit of the chosen algorithm's time, as a multiple of the best one's");
  app.add_option("--max-error,--most-error", grid_options.max_error,
                 "Limit of the median relative prediction error");
  app.add_flag("--all", grid_options.all, "Print all algorithms, not only the chosen ones");
}

}  // namespace

int main(int argc, char** argv) {
  bench::CollOptions options;
  bench::RawCollOptions raw;
  bench::ExplainOptions explain_options;
  CLI::App app("weft_coll: collective operations, measured and explained.");
  app.option_defaults()->always_capture_default();
  bench::add_call_options(app, options, raw);
  bench::add_run_options(app, options, raw);
  CLI::App* const explainer = app.add_subcommand("explain", "Print schedules and prove them");
  bench::add_call_options(*explainer, options, raw);
  explainer
      ->add_option("--count", explain_options.count, "Elements, as in the call; 0: four per rank")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40));
  explainer->add_option("--rank", explain_options.rank,
                        "Print the steps of this rank (default: of all)");
  explainer->add_option(
      "--wave", explain_options.wave,
      "Minimum elements of a step, for bucket and hierarchical over a --topology: a small "
      "value shows the waves of a large call; 0: the library's");
  explainer->add_option(
      "--topology", explain_options.topology,
      "One rank per chip of this network (as for sim), with its dimensions and racks "
      "(default: none)");
  explainer->add_option(
      "--export-msccl", explain_options.msccl_file,
      "With --algorithm: write the schedule to this file, as XML of MSCCL (default: none)");
  bench::SimulateOptions simulate_options;
  CLI::App* const simulator = app.add_subcommand("sim", "Predict times on a network of chips");
  bench::add_call_options(*simulator, options, raw);
  bench::add_choice_options(*simulator, options);
  add_simulate_options(*simulator, simulate_options);
  bench::GridOptions grid_options;
  CLI::App* const grid = app.add_subcommand(
      "grid", "Compare choices and predictions with packet simulations, on many networks");
  add_grid_options(*grid, grid_options);
  const CLI::App* const kernels =
      app.add_subcommand("kernels", "Measure how fast one core reduces each type");
  std::vector<std::string> dumps;
  bool as_json = false;
  CLI::App* const merger = app.add_subcommand(
      "merge", "Diagnose mismatched calls, stragglers and slow links from dumps");
  merger->add_option("dumps", dumps, "The dump of each rank (--dump)")->required();
  merger->add_flag("--json", as_json, "Print JSON instead of text");
  Result<std::vector<std::string>> words = bench::in_our_words(argc, argv);
  if (!words) {
    std::fprintf(stderr, "%s\n", words.error().message.c_str());
    return bench::kWrongOptions;
  }
  std::vector<char*> line = {argv[0]};
  for (std::string& word : *words) line.push_back(word.data());
  if (const auto ended = bench::read_command_line(app, static_cast<int>(line.size()), line.data()))
    return *ended;
  if (Result<void> finished = bench::finish_options(options, raw); !finished) {
    std::fprintf(stderr, "%s\n", finished.error().message.c_str());
    return 2;
  }
  if (kernels->parsed()) return bench::measure_kernels();
  if (grid->parsed()) return bench::measure_grid(grid_options);
  if (merger->parsed()) return bench::merge_dumps(dumps, as_json);
  if (simulator->parsed()) return bench::simulate(options, simulate_options);
  return explainer->parsed() ? bench::explain(options, explain_options) : run(options);
}
