// SPDX-License-Identifier: BSD-3-Clause
// Reads a scenario from TOML, each table by a Section (section.hpp). Without toml++
// (libtomlplusplus-dev) reading fails with a message.
#include "lib/sim/scenario/scenario.hpp"

#if __has_include(<toml++/toml.h>)

#include <filesystem>

#include "lib/base/installed/scenario_file.hpp"
#include "lib/base/module/plugin.hpp"
#include "lib/congestion/registry.hpp"
#include "lib/sim/scenario/job_tables.hpp"
#include "lib/sim/scenario/networks.hpp"
#include "lib/sim/scenario/plugins.hpp"
#include "lib/sim/scenario/rows.hpp"

namespace weft::sim::scenario {
namespace {

Result<fabric::Topology> build_network(Reader& reader, Section& section) {
  const std::string& file = reader.file;
  const std::string kind = section.text("kind");
  if (kind == "csv") return read_topology(base::file_beside(file, section.text("file")));
  if (kind == "links") return read_link_rows(section);
  if (base::is_plugin_path(kind)) return build_by_plugin(kind, reader, section);
  NetworkSize size;
  size.hosts = section.count("hosts", 0);
  size.mbps = static_cast<uint32_t>(section.number("gbps", 100, 0.001, 4000) * 1000);
  size.fabric_mbps = static_cast<uint32_t>(section.number("fabric_gbps", 0, 0, 4000) * 1000);
  size.delay_ns = section.time_ns("delay_ns", 1000);
  size.k = section.count("k", 0);
  size.leaves = section.count("leaves", 0);
  size.spines = section.count("spines", 0);
  size.dimensions = section.count("dimensions", 2);
  if (kind == "star") return make_star(size);
  if (kind == "dumbbell") return make_dumbbell(size);
  if (kind == "leaf-spine") return make_leaf_spine(size);
  if (kind == "fat-tree") return make_fat_tree(size);
  if (kind == "torus") return make_torus(size);
  if (kind == "hpcc-320") return make_hpcc_320();
  if (kind == "hpcc-testbed") return make_hpcc_testbed();
  return Error{Code::invalid_argument,
               "kind must be csv, links, star, dumbbell, leaf-spine, fat-tree, torus, hpcc-320, "
               "hpcc-testbed or a shared object, ./mine.so"};
}

Result<fabric::Topology> read_network(Reader& reader, const toml::table& root) {
  const toml::table* const table = root["network"].as_table();
  if (table == nullptr) return Error{Code::invalid_argument, reader.file + ": has no [network]"};
  Section section(reader, *table, "network");
  Result<fabric::Topology> topology = build_network(reader, section);
  if (!topology) section.fail("kind", topology.error().message);
  if (const std::string degraded = section.text("degraded"); topology && !degraded.empty()) {
    Result<void> done = read_degraded(base::file_beside(reader.file, degraded), *topology);
    if (!done) section.fail("degraded", done.error().message);
  }
  for (const char* const key : {"file", "links", "hosts", "gbps", "fabric_gbps", "delay_ns", "k",
                                "leaves", "spines", "dimensions"})
    (void)section.node(key);
  section.finish();
  if (reader.failed()) return reader.error;
  return topology;
}

// "websearch" is a shipped distribution, everything else a file.
Result<std::vector<SizePoint>> sizes_of(const std::string& file, const std::string& name) {
  if (name.find('.') != std::string::npos) return read_sizes(base::file_beside(file, name));
  return read_sizes(base::file_beside(file, "workloads/cdf_" + name + ".csv"));
}

// One [[flows]] table. Flows that wait for others go into `waiting`.
FlowList make_flows(Reader& reader, Section& section, const fabric::Topology& topology,
                    base::Random& random, FlowRows& waiting) {
  const std::string kind = section.text("kind");
  if (base::is_plugin_path(kind))
    return generate_by_plugin(kind, reader, section, topology, random);
  const std::string source = section.text("file");
  const std::string sizes = section.text("sizes");
  const double load = section.number("load", 0, 0, 10);
  const int64_t until = section.time_ns("until", 0);
  const int64_t start = section.time_ns("start", 0);
  const auto bytes = static_cast<uint64_t>(section.number("bytes", 0, 1));
  const uint32_t senders = section.count("senders", 0);
  const uint32_t receiver = section.count("receiver", 0);
  (void)section.node("rows");
  section.finish();
  if (reader.failed()) return {};
  if (kind == "list") return read_flow_rows(reader, section, topology);
  if (kind == "csv") {
    Result<FlowRows> rows = read_flows(base::file_beside(reader.file, source));
    if (!rows) section.fail("file", rows.error().message);
    if (!rows || rows->tasks.tasks.empty()) return rows ? rows->flows : FlowList();
    waiting.add(std::move(*rows));
    return {};
  }
  if (kind == "poisson") {
    Result<std::vector<SizePoint>> points = sizes_of(reader.file, sizes);
    if (!points) section.fail("sizes", points.error().message);
    if (load <= 0) section.fail("load", "must be more than 0");
    if (until <= 0) section.fail("until", "must say when arrivals end");
    if (reader.failed()) return {};
    return poisson(topology, SizeDistribution(*points), load, until, random);
  }
  if (bytes == 0) section.fail("bytes", "must be the size of each flow");
  if (reader.failed()) return {};
  if (kind == "permutation") return permutation(topology, bytes, start, random);
  if (kind == "all-to-all") return all_to_all(topology, bytes, start);
  if (kind != "incast")
    section.fail("kind",
                 "must be csv, list, poisson, incast, permutation, all-to-all or a shared object, "
                 "./mine.so");
  if (senders == 0) section.fail("senders", "must be 1 or more");
  if (receiver >= topology.node_count() || !topology.is_host(receiver))
    section.fail("receiver", "is no host of this network");
  if (reader.failed()) return {};
  if (load > 0) return incasts(topology, senders, bytes, load, until, random);
  return incast(topology, senders, receiver, bytes, start, random);
}

void read_flow_tables(Reader& reader, const toml::table& root, uint64_t seed, Scenario& scenario) {
  const toml::array* const tables = root["flows"].as_array();
  if (tables == nullptr && !scenario.jobs.empty()) return;
  if (tables == nullptr || tables->empty())
    return reader.fail(nullptr, "", "has no [[flows]] and no [[jobs]]");
  base::Random random(seed);
  FlowRows waiting;
  for (const toml::node& node : *tables) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) return reader.fail(&node, "flows", "must be tables: [[flows]]");
    Section section(reader, *table, "flows");
    const auto data_class = static_cast<uint8_t>(section.number("class", 0, 1, 7));
    const size_t before = waiting.flows.size();
    FlowList more = make_flows(reader, section, scenario.topology, random, waiting);
    if (data_class != 0)
      for (flow::FlowSpec& flow : more) flow.data_class = data_class;
    for (size_t i = before; data_class != 0 && i < waiting.flows.size(); ++i)
      waiting.flows[i].data_class = data_class;
    scenario.flows.insert(scenario.flows.end(), more.begin(), more.end());
  }
  sort_by_start(scenario.flows);
  FlowRows all{.flows = std::move(scenario.flows)};
  all.add(std::move(waiting));
  scenario.flows = std::move(all.flows);
  scenario.tasks = std::move(all.tasks);
}

// One [[events]] table: what happens to a link, and when.
fabric::LinkChange make_change(Section& section, const fabric::Topology& topology) {
  fabric::LinkChange change;
  change.at_ns = section.time_ns("at", -1);
  if (change.at_ns < 0) section.fail("at", "must say when");
  change.from = section.count("from", fabric::Topology::kNone);
  change.to = section.count("to", fabric::Topology::kNone);
  if (change.from >= topology.node_count() ||
      topology.port_between(change.from, change.to) == fabric::Topology::kNone)
    section.fail("to", "from and to must be two nodes that a link joins");
  change.both = section.flag("both", true);
  const std::string state = section.text("state");
  if (!state.empty() && state != "up" && state != "down")
    section.fail("state", "must be \"up\" or \"down\"");
  if (!state.empty()) change.up = state == "up";
  change.mbps = static_cast<uint32_t>(section.number("gbps", 0, 0.001, 4000) * 1000);
  if (section.has("loss")) change.loss = section.number("loss", 0, 0, 1);
  (void)section.node("loss");
  if (!change.up && !change.loss && change.mbps == 0)
    section.fail("state", "nothing happens: give state, gbps or loss");
  section.finish();
  return change;
}

void read_events(Reader& reader, const toml::table& root, Scenario& scenario) {
  if (root["events"].node() == nullptr) return;
  const toml::array* const tables = root["events"].as_array();
  if (tables == nullptr)
    return reader.fail(root["events"].node(), "events", "must be tables: [[events]]");
  for (const toml::node& node : *tables) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) return reader.fail(&node, "events", "must be tables: [[events]]");
    Section section(reader, *table, "events");
    scenario.link_changes.push_back(make_change(section, scenario.topology));
  }
}

// The name of the controller in a shared object beside the scenario, which is loaded: its
// parameters are keys of [set] then. Other names are looked up when the scheme is made.
Result<std::string> load_controller(const std::string& file, const std::string& name) {
  const std::string path = name.substr(0, name.find('+'));
  if (!base::is_plugin_path(path)) return name;
  return congestion::canonical_name(base::file_beside(file, path) + name.substr(path.size()));
}

void read_run(Reader& reader, const toml::table& root, Scenario& scenario) {
  const toml::table* const table = root["run"].as_table();
  if (table == nullptr) return;
  Section section(reader, *table, "run");
  if (section.has("until")) scenario.until_ns = section.time_ns("until", 0);
  if (const toml::node* const node = section.node("controllers"); node != nullptr) {
    const toml::array* const list = node->as_array();
    if (list == nullptr) return section.fail("controllers", "must be a list of names");
    for (const toml::node& item : *list) {
      const std::string name = item.value<std::string>().value_or("");
      const Result<std::string> controller = load_controller(reader.file, name);
      if (!controller) return section.fail("controllers", controller.error().message);
      scenario.controllers.push_back(*controller);
    }
  }
  if (const toml::node* const node = section.node("buckets"); node != nullptr) {
    const toml::array* const list = node->as_array();
    if (list == nullptr) return section.fail("buckets", "must be a list of sizes in bytes");
    for (const toml::node& size : *list)
      scenario.buckets.push_back(size.value<double>().value_or(0));
  }
  section.finish();
}

// A value of [set] or [sweep] as the command line would have it.
std::string value_text(const toml::node& node) {
  if (!node.is_number()) return node.value<std::string>().value_or("");
  char number[40];
  std::snprintf(number, sizeof number, "%.17g", node.value<double>().value_or(0));
  return number;
}

// [set]: "switch.buffer_mb" = 32, checked against the keys here, so that the error names the line.
void read_settings(Reader& reader, const toml::table& root, Scenario& scenario) {
  const toml::table* const table = root["set"].as_table();
  if (table == nullptr) return;
  flow::Parameters trial;
  for (const auto& [key, node] : *table) {
    const std::string name(key.str());
    std::string text = value_text(node);
    if (base::is_plugin_path(text)) text = base::file_beside(reader.file, text);
    const Result<void> set = trial.set(name, text);
    if (!set) return reader.fail(&node, "set", set.error().message);
    scenario.settings.emplace_back(name, text);
  }
}

// [sweep]: "path.policy" = ["reps", "mixed"]: a run for each value.
void read_sweeps(Reader& reader, const toml::table& root, Scenario& scenario) {
  const toml::table* const table = root["sweep"].as_table();
  if (table == nullptr) return;
  flow::Parameters trial;
  for (const auto& [key, list] : *table) {
    const std::string name(key.str());
    if (!list.is_array() || list.as_array()->empty())
      return reader.fail(&list, "sweep", name + " must be a list of values");
    std::string values;
    for (const toml::node& node : *list.as_array()) {
      const std::string text = value_text(node);
      const Result<void> set = trial.set(name, text);
      if (!set) return reader.fail(&node, "sweep", set.error().message);
      values += (values.empty() ? "" : ",") + text;
    }
    scenario.sweeps.push_back(name + "=" + values);
  }
}

// `file` is the name in messages, and what is named in the scenario is looked for beside it.
Result<Scenario> scenario_of(const toml::parse_result& parsed, const std::string& file,
                             uint64_t seed) {
  Reader reader{.file = file};
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Error{Code::invalid_argument, file + ":" + std::to_string(error.source().begin.line) +
                                             ": " + std::string(error.description())};
  }
  const toml::table& root = parsed.table();
  Result<fabric::Topology> topology = read_network(reader, root);
  if (!topology) return topology.error();
  Scenario scenario{.topology = std::move(*topology)};
  Section section(reader, root, "");
  scenario.title = section.text("title");
  for (const char* const key : {"network", "flows", "jobs", "events", "run", "set", "sweep"})
    (void)section.node(key);
  section.finish();
  read_run(reader, root, scenario);
  read_settings(reader, root, scenario);
  read_sweeps(reader, root, scenario);
  read_events(reader, root, scenario);
  read_job_tables(reader, root, scenario);
  if (!reader.failed()) read_flow_tables(reader, root, seed, scenario);
  if (reader.failed()) return reader.error;
  if (scenario.controllers.empty()) scenario.controllers = {"hpcc"};
  return scenario;
}

}  // namespace

Result<Scenario> read_scenario(const std::string& name, uint64_t seed) {
  std::string file = name;
  if (std::error_code error; !std::filesystem::is_regular_file(file, error))
    file = base::scenario_file(name + ".toml");
  if (file.empty()) {
    std::string folders;
    for (const std::string& folder : base::scenario_folders()) folders += " " + folder;
    return Error{Code::not_found, "no scenario '" + name + "': name a TOML file, or one (without " +
                                      ".toml) of" + folders};
  }
  return scenario_of(toml::parse_file(file), file, seed);
}

Result<Scenario> parse_scenario(const std::string& text, uint64_t seed) {
  return scenario_of(toml::parse(text), "the scenario", seed);
}

}  // namespace weft::sim::scenario

#else

namespace weft::sim::scenario {

Result<Scenario> read_scenario(const std::string& name, uint64_t) {
  return Error{Code::not_supported,
               name +
                   ": this build reads no TOML: apt-get install libtomlplusplus-dev and "
                   "configure again, or use --topology and --flows"};
}

Result<Scenario> parse_scenario(const std::string&, uint64_t seed) {
  return read_scenario("a scenario", seed);
}

}  // namespace weft::sim::scenario

#endif
