// SPDX-License-Identifier: BSD-3-Clause
// Collectives as a program: `weft_coll OPERATION` measures one over a range of sizes, between
// processes that it starts itself or that a launcher started; `weft_coll explain OPERATION` prints
// schedules; `weft_coll sim OPERATION` says what they take on a given network; `weft_coll grid` how
// good choices and predictions are; `weft_coll kernels` measures the arithmetic; `weft_coll merge
// DUMP...` says what went wrong between ranks.
// link: collective chart
#include <cstdio>

#include "tools/coll/diagnose.hpp"
#include "tools/coll/explain.hpp"
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
  return *placement ? bench::run_placed(**placement, measure)
                    : bench::run_local_ranks(options, measure);
}

void add_simulate_options(CLI::App& app, bench::SimulateOptions& simulated) {
  app.add_option("--topology", simulated.topologies,
                 "Files, or names of scenarios/collectives, separated by commas; a product's name "
                 "stands for all its profiles: trn3-nl72x2")
      ->delimiter(',')
      ->required();
  app.add_option("--size", simulated.sizes, "Sizes of the larger buffer, separated by commas")
      ->delimiter(',');
  app.add_option("--dead", simulated.dead,
                 "Lanes that are dead: MEDIUM:CHIP:LANES, or MEDIUM:CHIP-CHIP:LANES for one "
                 "link; as in backplane:5:20,cross-rack:3-75:all")
      ->delimiter(',');
  app.add_flag("--packets", simulated.packets,
               "Packet by packet, stored and forwarded, instead of fair flows");
  app.add_option("--plot", simulated.plot_file,
                 "Draw time by size there, of each algorithm and the bound: SVG");
  app.add_flag("--best", simulated.best_only, "Only the fastest algorithm of each size");
}

void add_grid_options(CLI::App& app, bench::GridOptions& gridded) {
  app.add_option("--topology", gridded.networks, "As for sim; or switch:CHIPS, of 50 GB/s each")
      ->delimiter(',')
      ->required();
  app.add_option("--operation", gridded.operations, "Operations (default: all that have a bound)")
      ->delimiter(',');
  app.add_option("--size", gridded.sizes, "Sizes of the larger buffer, separated by commas")
      ->delimiter(',');
  app.add_option("--most-over-best", gridded.most_over_best,
                 "How many times the best algorithm's time a chosen one may take");
  app.add_option("--most-error", gridded.most_error,
                 "By what part the median prediction may be wrong");
  app.add_flag("--all", gridded.all, "Print all algorithms, not only what was chosen");
}

}  // namespace

int main(int argc, char** argv) {
  bench::CollOptions options;
  bench::CollWords words;
  bench::ExplainOptions explained;
  CLI::App app("weft_coll: collective operations, measured and explained.");
  app.option_defaults()->always_capture_default();
  bench::add_call_options(app, options, words);
  bench::add_run_options(app, options, words);
  CLI::App* const explainer = app.add_subcommand("explain", "Print schedules and prove them");
  bench::add_call_options(*explainer, options, words);
  explainer
      ->add_option("--count", explained.count, "Elements, as in the call; 0: four for each rank")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 40));
  explainer->add_option("--rank", explained.rank, "Print the steps of this rank (default: of all)");
  explainer->add_option("--wave", explained.wave,
                        "Least elements of a step, for bucket and hierarchical over a --topology: "
                        "few elements go through in several waves too, as many do in a call");
  explainer->add_option("--topology", explained.topology,
                        "A rank on each chip of this network, as for sim: its dimensions, racks "
                        "(default: none)");
  bench::SimulateOptions simulated;
  CLI::App* const simulator = app.add_subcommand("sim", "Predict times on a network of chips");
  bench::add_call_options(*simulator, options, words);
  bench::add_choice_options(*simulator, options);
  add_simulate_options(*simulator, simulated);
  bench::GridOptions gridded;
  CLI::App* const grid =
      app.add_subcommand("grid", "Hold choices and predictions against packets, on many networks");
  add_grid_options(*grid, gridded);
  const CLI::App* const kernels =
      app.add_subcommand("kernels", "Measure how fast one core reduces each type");
  std::vector<std::string> dumps;
  bool as_json = false;
  CLI::App* const merger =
      app.add_subcommand("merge", "Say who was late, slow, or called something else");
  merger->add_option("dumps", dumps, "A dump of each rank: see --dump")->required();
  merger->add_flag("--json", as_json, "Not text but JSON");
  CLI11_PARSE(app, argc, argv);
  if (Result<void> finished = bench::finish_options(options, words); !finished) {
    std::fprintf(stderr, "%s\n", finished.error().message.c_str());
    return 2;
  }
  if (kernels->parsed()) return bench::measure_kernels();
  if (grid->parsed()) return bench::measure_grid(gridded);
  if (merger->parsed()) return bench::merge_dumps(dumps, as_json);
  if (simulator->parsed()) return bench::simulate(options, simulated);
  return explainer->parsed() ? bench::explain(options, explained) : run(options);
}
