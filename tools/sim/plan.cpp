// SPDX-License-Identifier: BSD-3-Clause
// From the command line to the list of runs: seeds x controllers x swept values. What the command
// line says goes before what the scenario says.
#include <algorithm>
#include <charconv>

#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

Error invalid(std::string text) { return Error{Code::invalid_argument, std::move(text)}; }

// "key=value" in its two halves.
Result<std::pair<std::string, std::string>> halves(const std::string& option,
                                                   const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return invalid(option + " " + text + ": write key=value");
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<void> apply(sim::flow::Parameters& parameters, const Settings& settings,
                   const std::string& option) {
  for (const auto& [key, value] : settings) {
    Result<void> set = parameters.set(key, value);
    if (!set) return invalid(option + key + "=" + value + ": " + set.error().message);
  }
  return {};
}

Result<std::vector<uint64_t>> parse_seeds(const RunCommand& command) {
  if (command.seeds.empty()) return std::vector<uint64_t>{command.seed};
  uint64_t first = 0;
  uint64_t last = 0;
  const char* const end = command.seeds.data() + command.seeds.size();
  const auto [dots, error] = std::from_chars(command.seeds.data(), end, first);
  const bool range = error == std::errc() && end - dots > 2 && dots[0] == '.' && dots[1] == '.';
  const auto [rest, wrong] = std::from_chars(range ? dots + 2 : end, end, last);
  if (!range || wrong != std::errc() || rest != end || last < first || last - first > 999)
    return invalid("--seeds " + command.seeds + ": write a range like 1..5");
  std::vector<uint64_t> seeds;
  for (uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
  return seeds;
}

// Every combination of one value per sweep.
Result<std::vector<Settings>> combinations(const std::vector<std::string>& sweeps) {
  std::vector<Settings> list = {{}};
  for (const std::string& sweep : sweeps) {
    Result<std::pair<std::string, std::string>> parts = halves("--sweep", sweep);
    if (!parts) return parts.error();
    std::vector<Settings> longer;
    const std::string& values = parts->second;
    for (size_t begin = 0; begin <= values.size();) {
      const size_t end = std::min(values.find(',', begin), values.size());
      for (Settings settings : list) {
        settings.emplace_back(parts->first, values.substr(begin, end - begin));
        longer.push_back(std::move(settings));
      }
      begin = end + 1;
    }
    list = std::move(longer);
  }
  return list;
}

// What stands behind the scenario: cc=NAME,NAME is --cc, every other key=value is --set. Shared
// objects are loaded here, before settings name their parameters.
Result<RunCommand> with_words(RunCommand command) {
  for (const std::string& word : command.words) {
    if (!word.starts_with("cc=")) {
      command.settings.push_back(word);
      continue;
    }
    for (size_t begin = 3; begin <= word.size();) {
      const size_t end = std::min(word.find(',', begin), word.size());
      command.controllers.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  for (std::string& controller : command.controllers) {
    Result<std::string> name = congestion::canonical_name(controller);
    if (!name) return name.error();
    controller = std::move(*name);
  }
  return command;
}

// A parameter of another controller changes nothing for this one.
bool concerns(const std::string& key, const congestion::Kind& kind) {
  const std::string group = key.substr(0, key.find('.'));
  for (const congestion::Kind* other : congestion::kinds())
    if (other->name == group) return congestion::takes_parameters_of(kind, group);
  return true;
}

Result<sim::scenario::Scenario> load(const RunCommand& command, uint64_t seed) {
  if (!command.scenario.empty()) {
    if (!command.topology.empty() || !command.flows.empty())
      return invalid("give a scenario file or --topology and --flows, not both");
    return sim::scenario::read_scenario(command.scenario, seed);
  }
  if (command.topology.empty() || command.flows.empty())
    return invalid("give a scenario file, or --topology and --flows");
  Result<sim::fabric::Topology> topology = sim::scenario::read_topology(command.topology);
  if (!topology) return topology.error();
  if (!command.degraded.empty()) {
    Result<void> degraded = sim::scenario::read_degraded(command.degraded, *topology);
    if (!degraded) return degraded.error();
  }
  Result<sim::scenario::FlowRows> flows = sim::scenario::read_flows(command.flows);
  if (!flows) return flows.error();
  return sim::scenario::Scenario{.topology = std::move(*topology),
                                 .flows = std::move(flows->flows),
                                 .tasks = std::move(flows->tasks),
                                 .controllers = {"hpcc"}};
}

// What the command line says of links comes after what the scenario says.
Result<void> add_events(const RunCommand& command, sim::scenario::Scenario& scenario) {
  if (command.events.empty()) return {};
  Result<std::vector<sim::fabric::LinkChange>> changes =
      sim::scenario::read_link_changes(command.events);
  if (!changes) return changes.error();
  scenario.link_changes.insert(scenario.link_changes.end(), changes->begin(), changes->end());
  return {};
}

Result<void> add_runs(Comparison& comparison, const std::string& controller,
                      const std::vector<Settings>& sweeps) {
  for (const Settings& sweep : sweeps) {
    sim::flow::Parameters parameters = comparison.parameters;
    Result<void> applied = apply(parameters, sweep, "--sweep ");
    if (!applied) return applied;
    Result<sim::flow::Scheme> scheme =
        sim::flow::make_scheme(controller, parameters, comparison.scenario.topology);
    if (!scheme) return scheme.error();
    std::string label = controller;
    for (const auto& [key, value] : sweep)
      if (concerns(key, *scheme->kind)) label += "[" + key + "=" + value + "]";
    const bool known = std::any_of(comparison.outcomes.begin(), comparison.outcomes.end(),
                                   [&](const Outcome& outcome) { return outcome.label == label; });
    if (!known) comparison.outcomes.push_back({.label = label, .scheme = std::move(*scheme)});
  }
  return {};
}

Result<void> set_options(Comparison& comparison) {
  sim::flow::RunOptions& options = comparison.options;
  options = sim::scenario::run_options(comparison.scenario, comparison.parameters, comparison.seed);
  options.series_flows = comparison.command.series_flows;
  options.pcap_flows = comparison.command.pcap_flows;
  options.tasks = comparison.tasks.get();
  if (comparison.command.until.empty()) return {};
  const std::string& end = comparison.command.until;
  if (sim::flow::parse_number(end))
    return invalid("--until " + end + " has no unit: write " + end + "ns, " + end + "us, " + end +
                   "ms or " + end + "s");
  Result<int64_t> until = sim::flow::parse_time_ns(comparison.command.until);
  if (!until) return invalid("--until: " + until.error().message);
  options.until_ns = *until;
  return {};
}

Result<Comparison> plan_seed(const RunCommand& command, uint64_t seed) {
  Result<sim::scenario::Scenario> scenario = load(command, seed);
  if (!scenario) return scenario.error();
  if (Result<void> added = add_events(command, *scenario); !added) return added.error();
  Comparison comparison{.command = command, .seed = seed, .scenario = std::move(*scenario)};
  if (Result<void> added = add_jobs(comparison); !added) return added.error();
  Settings settings;
  for (const std::string& text : command.settings) {
    Result<std::pair<std::string, std::string>> parts = halves("--set", text);
    if (!parts) return parts.error();
    settings.push_back(*parts);
  }
  Result<void> done = apply(comparison.parameters, comparison.scenario.settings, "");
  if (done) done = apply(comparison.parameters, settings, "--set ");
  if (done) done = set_options(comparison);
  if (!done) return done.error();
  if (!command.buckets.empty()) comparison.scenario.buckets = command.buckets;
  if (!command.controllers.empty()) comparison.scenario.controllers = command.controllers;
  Result<std::vector<Settings>> sweeps =
      combinations(command.sweeps.empty() ? comparison.scenario.sweeps : command.sweeps);
  if (!sweeps) return sweeps.error();
  for (const std::string& controller : comparison.scenario.controllers) {
    done = add_runs(comparison, controller, *sweeps);
    if (!done) return done.error();
  }
  return comparison;
}

}  // namespace

Result<std::vector<Comparison>> plan(const RunCommand& given) {
  const Result<RunCommand> understood = with_words(given);
  if (!understood) return understood.error();
  const RunCommand& command = *understood;
  Result<std::vector<uint64_t>> seeds = parse_seeds(command);
  if (!seeds) return seeds.error();
  std::vector<Comparison> comparisons;
  for (const uint64_t seed : *seeds) {
    Result<Comparison> comparison = plan_seed(command, seed);
    if (!comparison) return comparison.error();
    comparisons.push_back(std::move(*comparison));
  }
  return comparisons;
}

}  // namespace weft::bench
