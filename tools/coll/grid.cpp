// SPDX-License-Identifier: BSD-3-Clause
// Measures the grid cell by cell.
#include "tools/coll/grid.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/packet_model.hpp"
#include "lib/collective/model/selector.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "tools/coll/options.hpp"

namespace weft::bench {
namespace {

using collective::Algorithm;
using collective::Choice;
using collective::CostQuery;
using collective::Routes;
using collective::Selector;
using collective::Topology;

constexpr double kElement = 4;  // fp32
constexpr uint64_t kMaxChips = 2048;
// Buffers of more packets than this use larger packets.
constexpr double kPackets = 4096;
// Algorithms whose prediction exceeds the best one by this factor are not simulated.
constexpr double kHopeless = 3;

constexpr Collective kOperations[] = {Collective::all_gather, Collective::all_reduce,
                                      Collective::all_to_all, Collective::broadcast,
                                      Collective::reduce,     Collective::reduce_scatter};

Result<Collective> parse_grid_operation(const std::string& word) {
  std::string known;
  for (const Collective each : kOperations) {
    if (word == weft::name(each)) return each;
    known += (known.empty() ? "" : ", ") + std::string(weft::name(each));
  }
  return Error{Code::invalid_argument, "grid has no operation '" + word + "'; it has " + known};
}

Result<Topology> network_of(const std::string& name) {
  const std::string kind = "switch:";
  if (name.rfind(kind, 0) != 0) return collective::read_topology(name);
  char* end = nullptr;
  const unsigned long number = std::strtoul(name.c_str() + kind.size(), &end, 10);
  const uint32_t chips = *end == 0 && number <= kMaxChips ? static_cast<uint32_t>(number) : 0;
  if (chips < 2)
    return Error{Code::invalid_argument, "'" + name + "': write switch:2 to switch:2048"};
  Topology topology = collective::make_switched_racks(
      {.racks = 1, .trays = chips, .chips_per_tray = 1, .planes = 1, .backplane = 50e9}, 1e-6);
  topology.name = name;
  return topology;
}

double by_packets(const Algorithm& algorithm, const CostQuery& question, const Topology& topology,
                  Routes& routes) {
  collective::Shape shape{.collective = question.collective,
                          .ranks = topology.chips,
                          .count = question.count,
                          .dimensions = topology.dimensions};
  shape.piece = collective::model_piece(algorithm, shape.count);
  const std::vector<collective::Program> programs = programs_of(algorithm, shape);
  const collective::PacketCall call{shape, &programs, kElement, kElement};
  const double buffer = static_cast<double>(question.count) * kElement *
                        (is_per_rank(question.collective) ? topology.chips : 1);
  collective::PacketOptions options;
  options.packet_bytes = std::max(options.packet_bytes, std::ceil(buffer / kPackets));
  return simulate_packets({&call, 1}, topology, routes, options).seconds[0];
}

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

class Grid {
 public:
  explicit Grid(const GridOptions& options) : options_(options) {}

  void add(const Topology& network, const std::vector<Collective>& operations,
           const std::vector<uint64_t>& sizes) {
    Selector selector(network);
    Routes routes(network);
    for (const Collective operation : operations)
      for (const uint64_t bytes : sizes) add_cell(selector, routes, operation, bytes);
  }

  // Returns false if a limit is exceeded.
  bool finish() const {
    const double middle = quantile(chosen_errors_, 0.5);
    std::printf(
        "# %zu cells, %zu simulated calls; chosen over best: at most %.3f, %zu above %.2f\n"
        "# prediction error of what was chosen: median %.1f %%, of all that was simulated: "
        "median %.1f %%, 90 of 100 below %.1f %%\n# times that beat their bound: %zu\n",
        ratios_.size(), errors_.size(),
        ratios_.empty() ? 0 : *std::max_element(ratios_.begin(), ratios_.end()), worse_,
        options_.max_over_best, 100 * middle, 100 * quantile(errors_, 0.5),
        100 * quantile(errors_, 0.9), beaten_);
    return worse_ == 0 && beaten_ == 0 && middle <= options_.max_error && !ratios_.empty();
  }

 private:
  void add_cell(Selector& selector, Routes& routes, Collective operation, uint64_t bytes) {
    const Topology& network = selector.topology();
    const uint64_t whole = bytes / static_cast<uint64_t>(kElement);
    const uint64_t count = is_per_rank(operation) ? whole / network.chips : whole;
    if (count == 0) return;
    const CostQuery question{
        .collective = operation, .count = count, .element = kElement, .accumulator = kElement};
    const Choice choice = selector.choose(question);
    const double buffer =
        static_cast<double>(count) * kElement * (is_per_rank(operation) ? network.chips : 1);
    const collective::Bound bound = lower_bound(operation, buffer, network);
    double best = INFINITY, taken = 0;
    const Algorithm* best_one = nullptr;
    for (const Algorithm& algorithm : collective::algorithms()) {
      if (!is_candidate(algorithm, operation, network.chips)) continue;
      const double predicted = selector.corrected_seconds(algorithm, question);
      if (predicted > kHopeless * choice.seconds) continue;
      const double seen = by_packets(algorithm, question, network, routes);
      const double error = std::abs(predicted - seen) / seen;
      errors_.push_back(error);
      const double exact = model_seconds(algorithm, question, network, routes);
      if (std::min(exact, seen) < bound.seconds * (1 - 1e-6)) {
        ++beaten_;
        std::printf("%s beats the bound '%s'\n", std::string(algorithm.name).c_str(),
                    bound.cut.c_str());
      }
      if (seen < best) best = seen, best_one = &algorithm;
      if (&algorithm == choice.algorithm) taken = seen, chosen_errors_.push_back(error);
      if (options_.all) print(network, question, bytes, algorithm, predicted, seen, bound.seconds);
    }
    ratios_.push_back(taken / best);
    const bool worse = taken > options_.max_over_best * best;
    worse_ += worse;
    if (!options_.all || worse) {
      print(network, question, bytes, *choice.algorithm, choice.seconds, taken, bound.seconds);
      if (worse)
        std::printf("  %.2f of the best, which is %s: %.2f us\n", taken / best,
                    std::string(best_one->name).c_str(), best * 1e6);
    }
    std::fflush(stdout);
  }

  static void print(const Topology& network, const CostQuery& question, uint64_t bytes,
                    const Algorithm& algorithm, double predicted, double seen, double bound) {
    std::printf("%-24s %-14s %10lu  %-16s %10.2f %10.2f %7.1f %10.2f\n", network.name.c_str(),
                std::string(name(question.collective)).c_str(), static_cast<unsigned long>(bytes),
                std::string(algorithm.name).c_str(), predicted * 1e6, seen * 1e6,
                100 * (predicted - seen) / seen, bound * 1e6);
  }

  const GridOptions& options_;
  std::vector<double> ratios_, errors_, chosen_errors_;
  size_t worse_ = 0, beaten_ = 0;
};

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 2;
}

}  // namespace

int measure_grid(const GridOptions& options) {
  std::vector<Collective> operations;
  if (options.operations.empty()) operations.assign(std::begin(kOperations), std::end(kOperations));
  for (const std::string& word : options.operations) {
    const Result<Collective> operation = parse_grid_operation(word);
    if (!operation) return complain(operation.error());
    operations.push_back(*operation);
  }
  std::vector<uint64_t> sizes;
  for (const std::string& text : options.sizes) {
    const Result<uint64_t> bytes = parse_bytes(text);
    if (!bytes) return complain(bytes.error());
    sizes.push_back(*bytes);
  }
  std::vector<Topology> networks;
  for (const std::string& name : options.networks)
    for (const std::string& file : collective::topology_profiles(name)) {
      Result<Topology> network = network_of(file);
      if (!network) return complain(network.error());
      if (network->chips == 1)
        return complain({Code::invalid_argument, file + ": one chip has nothing to choose"});
      if (network->chips > kMaxChips)
        return complain({Code::not_supported, name + ": packets are simulated for up to " +
                                                  std::to_string(kMaxChips) + " chips"});
      networks.push_back(*std::move(network));
    }
  std::printf("%-24s %-14s %10s  %-16s %10s %10s %7s %10s\n", "network", "operation", "bytes",
              "chosen", "predicted", "packets", "error %", "bound us");
  Grid grid(options);
  for (const Topology& network : networks) grid.add(network, operations, sizes);
  return grid.finish() ? 0 : 1;
}

}  // namespace weft::bench
