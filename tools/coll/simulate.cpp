// SPDX-License-Identifier: BSD-3-Clause
// Runs every applicable algorithm in the flow model or the packet model; prints time, lower bound
// and the busiest link.
#include "tools/coll/simulate.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <fstream>
#include <map>

#include "lib/collective/arithmetic/arithmetic.hpp"
#include "lib/collective/model/flow_model.hpp"
#include "lib/collective/model/forests.hpp"
#include "lib/collective/model/lanes.hpp"
#include "lib/collective/model/packet_model.hpp"
#include "lib/collective/model/topology_file.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "tools/chart/chart.hpp"
#include "tools/coll/expert_choices.hpp"

namespace weft::bench {
namespace {

using collective::Algorithm;
using collective::Bound;
using collective::Prediction;
using collective::Topology;

constexpr uint32_t kMaxPacketChips = 2048;    // chips
constexpr uint32_t kMaxExpertChips = 1024;    // chips: every pair has its own block size
constexpr uint64_t kMaxBlockSizes = 1 << 26;  // some 0.5 GB
constexpr uint64_t kMaxSteps =
    32'000'000;  // a few GB of programs, unless the schedule is symmetric

struct Outcome {
  const Algorithm* algorithm = nullptr;
  double seconds = 0;
  std::string bottleneck;
};

std::string busiest_link(const Topology& topology, const Prediction& prediction) {
  if (prediction.seconds == 0) return "none";
  size_t busiest = 0;
  const auto busy_s = [&](size_t link) {
    return prediction.link_bytes[link] / topology.links[link].bytes_per_s;
  };
  for (size_t link = 1; link < topology.links.size(); ++link)
    if (busy_s(link) > busy_s(busiest)) busiest = link;
  const collective::NetworkLink& link = topology.links[busiest];
  char text[96];
  std::snprintf(text, sizeof text, "%s %u>%u, busy %.0f %%", link.medium.c_str(), link.from,
                link.to, 100 * busy_s(busiest) / prediction.seconds);
  return text;
}

// Time / lower bound, if there is one.
std::string ratio(double seconds, double bound_seconds) {
  if (bound_seconds == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", seconds / bound_seconds);
  return text;
}

// Plot lines by name, with points in the order of sizes.
using Plot = std::map<std::string, Line>;

class Simulation {
 public:
  Simulation(const CollOptions& options, const Topology& topology, bool packets, Plot& plot)
      : options_(options),
        topology_(topology),
        packets_(packets),
        plot_(plot),
        routes_(topology),
        forests_(topology) {}

  void print_head() {
    uint64_t hops = 0, most = 0;
    const std::vector<uint32_t>& distance = routes_.distances_to(0);  // distances are symmetric
    for (uint32_t chip = 1; chip < topology_.chips; ++chip) {
      hops += distance[chip] - 1;
      most = std::max<uint64_t>(most, distance[chip] - 1);
    }
    std::printf("\n%s: %u chips, %zu links; from chip 0 %.2f hops on average, at most %lu\n",
                topology_.name.c_str(), topology_.chips, topology_.links.size(),
                static_cast<double>(hops) / std::max(1U, topology_.chips - 1),
                static_cast<unsigned long>(most));
    for (const collective::Cut& cut : topology_.cuts)
      std::printf("  cut '%s' carries %.0f GB/s\n", cut.name.c_str(),
                  capacity(topology_, cut) / 1e9);
    std::printf("%10s  %-18s %12s %12s %7s  %-14s %s\n", "size", "algorithm", "time us", "bound us",
                "ratio", "bound by", "busiest link");
  }

  // Returns false if a time is below its bound: the model is wrong.
  bool run(uint64_t bytes, const std::string& size, bool best_only) {
    if (uses_experts(options_.collective))
      experts_ = shape_of_experts(options_, topology_, count_for(options_, topology_.chips, bytes));
    std::vector<Outcome> outcomes;
    for (const Algorithm& algorithm : collective::algorithms()) {
      if (!is_asked_for(algorithm)) continue;
      if (const Result<void> able = fits(algorithm, shape_of_call(algorithm, bytes)); !able) {
        std::printf("%10s  %-18s left out: %s\n", size.c_str(), std::string(algorithm.name).c_str(),
                    able.error().message.c_str());
        continue;
      }
      const uint64_t steps = steps_of(algorithm, bytes);
      if (steps <= kMaxSteps)
        outcomes.push_back(predict_one(algorithm, bytes));
      else
        std::printf("%10s  %-18s left out: %lu steps\n", size.c_str(),
                    std::string(algorithm.name).c_str(), static_cast<unsigned long>(steps));
    }
    std::sort(outcomes.begin(), outcomes.end(),
              [](const Outcome& a, const Outcome& b) { return a.seconds < b.seconds; });
    if (best_only && outcomes.size() > 1) outcomes.resize(1);
    const Bound bound = bound_of(bytes);
    bool sound = true;
    draw("bound", bytes, bound.seconds);
    for (const Outcome& outcome : outcomes) {
      draw(best_only ? "best" : std::string(outcome.algorithm->name), bytes, outcome.seconds);
      std::printf("%10s  %-18s %12.1f %12.1f %7s  %-14s %s\n", size.c_str(),
                  std::string(outcome.algorithm->name).c_str(), outcome.seconds * 1e6,
                  bound.seconds * 1e6, ratio(outcome.seconds, bound.seconds).c_str(),
                  bound.cut.c_str(), outcome.bottleneck.c_str());
      sound &= outcome.seconds >= bound.seconds * (1 - 1e-6);
    }
    if (!sound) std::printf("# a prediction is below its lower bound: the model is wrong\n");
    return sound && !outcomes.empty();
  }

 private:
  bool is_asked_for(const Algorithm& algorithm) const {
    if (options_.algorithm.empty())
      return is_candidate(algorithm, options_.collective, topology_.chips);
    const Result<const Algorithm*> named =
        collective::find_algorithm(options_.algorithm, options_.collective, topology_.chips);
    return named && *named == &algorithm;
  }

  Bound bound_of(uint64_t bytes) const {
    const uint64_t count = count_for(options_, topology_.chips, bytes);
    if (uses_experts(options_.collective)) return bound_of_experts(options_, topology_, count);
    const double whole = static_cast<double>(bytes_for(options_, topology_.chips, count));
    return lower_bound(options_.collective, whole, topology_, options_.root);
  }

  // The total of all chips, if each has as many steps as the first one.
  uint64_t steps_of(const Algorithm& algorithm, uint64_t bytes) {
    return program_of(algorithm, shape_of_call(algorithm, bytes), 0).steps.size() *
           uint64_t{topology_.chips};
  }

  collective::Shape shape_of_call(const Algorithm& algorithm, uint64_t bytes) {
    if (uses_experts(options_.collective)) return experts_;
    const collective::Arithmetic arithmetic = collective::arithmetic_of(options_.type, options_.op);
    const bool reduces = collective::reduces(options_.collective);
    collective::Shape shape{.collective = options_.collective,
                            .ranks = topology_.chips,
                            .root = options_.root,
                            .count = count_for(options_, topology_.chips, bytes),
                            .exact = !reduces || arithmetic.exact,
                            .average = reduces && options_.op == ReduceOp::avg,
                            .dimensions = topology_.dimensions};
    shape.piece = collective::model_piece(algorithm, shape.count);
    if (algorithm.traits.over_forest) shape.forest = forests_.of(shape.collective, shape.root);
    return shape;
  }

  Outcome predict_one(const Algorithm& algorithm, uint64_t bytes) {
    const collective::Arithmetic arithmetic = collective::arithmetic_of(options_.type, options_.op);
    const double element = static_cast<double>(arithmetic.element);
    const double accumulator = static_cast<double>(arithmetic.accumulator);
    const collective::Shape shape = shape_of_call(algorithm, bytes);
    Prediction prediction = predict_call(algorithm, shape, element, accumulator);
    if (options_.collective == Collective::combine && algorithm.traits.by_rack &&
        topology_.racks > 1)
      add_rack_sums(prediction, rack_sums_shape(shape), accumulator);
    return {&algorithm, prediction.seconds, busiest_link(topology_, prediction)};
  }

  Prediction predict_call(const Algorithm& algorithm, const collective::Shape& shape,
                          double element, double accumulator) {
    if (!packets_)
      return collective::predict(algorithm, shape, element, accumulator, topology_, routes_);
    const std::vector<collective::Program> programs = programs_of(algorithm, shape);
    const collective::PacketCall call{shape, &programs, element, accumulator};
    const collective::PacketOutcome outcome =
        collective::simulate_packets({&call, 1}, topology_, routes_);
    return {outcome.seconds[0], outcome.link_bytes};
  }

  // After the combine inside racks a second call sends the sums across racks.
  void add_rack_sums(Prediction& inside, const collective::Shape& across, double accumulator) {
    const Algorithm& direct =
        **collective::find_algorithm("direct", across.collective, across.ranks);
    const Prediction sums = predict_call(direct, across, accumulator, accumulator);
    inside.seconds += sums.seconds;
    for (size_t link = 0; link < sums.link_bytes.size(); ++link)
      inside.link_bytes[link] += sums.link_bytes[link];
  }

  void draw(const std::string& what, uint64_t bytes, double seconds) {
    const size_t colour = plot_.size();
    Line& line = plot_[topology_.name + " " + what];
    if (line.x.empty()) line.colour = colour;
    line.name = topology_.name + " " + what;
    line.dashed = what == "bound";
    line.x.push_back(static_cast<double>(bytes));
    line.y.push_back(seconds * 1e6);
  }

  const CollOptions& options_;
  const Topology& topology_;
  bool packets_;
  Plot& plot_;
  collective::Routes routes_;
  collective::Forests forests_;
  collective::Shape experts_;  // dispatch, combine: shape of the current size
};

Result<void> write_plot(const CollOptions& options, const Plot& plot, const std::string& path) {
  Chart chart{.title = std::string(name(options.collective)) + ", predicted",
              .x_name = "bytes of the larger buffer",
              .y_name = "us",
              .log_x = true,
              .log_y = true};
  for (const auto& [what, line] : plot) chart.lines.push_back(line);
  std::ofstream file(path);
  file << svg_file(chart);
  if (file) return {};
  return Error{Code::io_error, "cannot write " + path};
}

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 2;
}

}  // namespace

int simulate(const CollOptions& options, const SimulateOptions& simulated) {
  const bool of_experts = uses_experts(options.collective);
  if ((collective::has_blocks(options.collective) && !of_experts) ||
      !has_schedules(options.collective))
    return complain({Code::not_supported, "sim has no bound for " + operation_name(options) +
                                              ": it has all_gather, all_reduce, "
                                              "all_to_all, broadcast, combine, dispatch, reduce, "
                                              "reduce_scatter"});
  if (!options.algorithm.empty()) {
    const Result<const Algorithm*> known =
        collective::find_algorithm(options.algorithm, options.collective, 2);
    if (!known) return complain(known.error());
  }
  std::printf("%s of %s, %s over minimal paths, reductions for free\n",
              std::string(name(options.collective)).c_str(),
              std::string(name(options.type)).c_str(),
              simulated.packets ? "packets of 4 KiB" : "max-min fair flows");
  bool sound = true;
  Plot plot;
  std::vector<collective::DeadLanes> dead;
  for (const std::string& text : simulated.dead) {
    const Result<collective::DeadLanes> parsed = collective::parse_dead_lanes(text);
    if (!parsed) return complain(parsed.error());
    dead.push_back(*parsed);
  }
  std::vector<std::string> files;
  for (const std::string& name : simulated.topologies)
    for (std::string& file : collective::topology_profiles(name)) files.push_back(std::move(file));
  for (const std::string& file : files) {
    Result<Topology> topology = collective::read_topology(file);
    if (!topology) return complain(topology.error());
    if (const Result<void> taken = collective::remove_dead_lanes(*topology, dead); !taken)
      return complain(taken.error());
    if (has_root(options.collective) && options.root >= topology->chips)
      return complain({Code::invalid_argument,
                       "--root " + std::to_string(options.root) + ": " + topology->name + " has " +
                           std::to_string(topology->chips) + " chips, from 0 on"});
    if (simulated.packets && topology->chips > kMaxPacketChips)
      return complain({Code::not_supported, "--packets is for up to " +
                                                std::to_string(kMaxPacketChips) +
                                                " chips; leave it out for flows"});
    if (of_experts && topology->chips > kMaxExpertChips)
      return complain({Code::not_supported, "dispatch and combine are for up to " +
                                                std::to_string(kMaxExpertChips) + " chips"});
    if (of_experts &&
        uint64_t{topology->chips} * topology->chips * options.experts_per_rank > kMaxBlockSizes)
      return complain({Code::not_supported,
                       "--experts times the square of the chips exceeds the memory limit: use "
                       "fewer --experts"});
    if (const Result<void> enough = check_experts(options, topology->chips); of_experts && !enough)
      return complain(enough.error());
    Simulation simulation(options, *topology, simulated.packets, plot);
    simulation.print_head();
    for (const std::string& size : simulated.sizes) {
      const Result<uint64_t> bytes = parse_bytes(size);
      if (!bytes) return complain(bytes.error());
      sound &= simulation.run(*bytes, size, simulated.best_only);
    }
  }
  if (!simulated.plot_file.empty())
    if (const Result<void> drawn = write_plot(options, plot, simulated.plot_file); !drawn)
      return complain(drawn.error());
  return sound ? 0 : 1;
}

}  // namespace weft::bench
