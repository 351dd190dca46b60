// SPDX-License-Identifier: BSD-3-Clause
// Reads a topology. Errors for missing, unknown or invalid keys name the line. Without toml++
// (libtomlplusplus-dev) every call fails with not_supported.
#include "lib/collective/model/topology_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lib/base/installed/scenario_file.hpp"
#include "lib/collective/model/lanes.hpp"

namespace weft::collective {

namespace {
const std::string kFolder = "collectives/";
}

std::vector<std::string> topology_profiles(const std::string& name) {
  std::vector<std::string> profiles;
  if (std::filesystem::is_regular_file(name) ||
      !base::scenario_file(kFolder + name + ".toml").empty())
    return {name};
  for (const std::string& folder : base::scenario_folders()) {
    std::error_code unreadable;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder + "/" + kFolder, unreadable)) {
      const std::string stem = entry.path().stem().string();
      if (entry.path().extension() == ".toml" && stem.starts_with(name + "-"))
        profiles.push_back(stem);
    }
    if (!profiles.empty()) break;
  }
  if (profiles.empty()) return {name};
  std::sort(profiles.begin(), profiles.end());
  return profiles;
}

}  // namespace weft::collective

#if __has_include(<toml++/toml.h>)

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <set>

namespace weft::collective {
namespace {

constexpr uint32_t kMaxChips = 4096;  // per domain
constexpr uint32_t kMaxDomains = 4096;
constexpr uint32_t kMaxLanes = 4096;  // per link

class Table {
 public:
  Table(const toml::table& table, std::string file, Error& error)
      : table_(table), file_(std::move(file)), error_(error) {}

  double number(const char* key, double min, double max) {
    known_.insert(key);
    const toml::node* const node = table_.get(key);
    const std::optional<double> value =
        node != nullptr ? node->value<double>() : std::optional<double>();
    if (value && *value >= min && *value <= max) return *value;
    char range[96];
    std::snprintf(range, sizeof range, "%s must be a number from %g to %g", key, min, max);
    fail(node, range);
    return min;
  }
  bool has(const char* key) const { return table_.contains(key); }
  uint32_t integer(const char* key, uint32_t min, uint32_t max) {
    const double value = number(key, min, max);
    if (value != std::floor(value))
      fail(table_.get(key), std::string(key) + " must be a whole number");
    return static_cast<uint32_t>(value);
  }
  uint32_t count(const char* key, uint32_t max) { return integer(key, 1, max); }
  bool flag(const char* key) {
    known_.insert(key);
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return false;
    if (!node->is_boolean()) fail(node, std::string(key) + " must be true or false");
    return node->value_or(false);
  }
  std::string string(const char* key) {
    known_.insert(key);
    const toml::node* const node = table_.get(key);
    if (node == nullptr || !node->is_string()) fail(node, std::string(key) + " must be a string");
    return node != nullptr ? node->value_or<std::string>("") : "";
  }
  const toml::array& list(const char* key) {
    static const toml::array kNone;
    known_.insert(key);
    const toml::node* const node = table_.get(key);
    if (node != nullptr && node->is_array()) return *node->as_array();
    fail(node, std::string(key) + " must be a list");
    return kNone;
  }
  const toml::table* table(const char* key) {
    known_.insert(key);
    const toml::node* const node = table_.get(key);
    if (node != nullptr && !node->is_table()) fail(node, std::string(key) + " must be a table");
    return table_.get_as<toml::table>(key);
  }
  void reject_unknown_keys() {
    for (const auto& [key, node] : table_)
      if (known_.count(std::string(key.str())) == 0)
        fail(&node, "no such key: " + std::string(key.str()));
  }
  void fail(const toml::node* node, const std::string& text) {
    if (!error_.message.empty()) return;
    const toml::node& at = node != nullptr ? *node : table_;
    error_.message = file_ + ":" + std::to_string(at.source().begin.line) + ": " + text;
  }

 private:
  const toml::table& table_;
  std::string file_;
  Error& error_;
  std::set<std::string> known_;
};

constexpr double kGiga = 1e9, kMaxGigabytesPerS = 1e6;

Topology read_torus(Table& table, double link_s) {
  const toml::array &names = table.list("names"), &sizes = table.list("sizes"),
                    &rates = table.list("gigabytes_per_s");
  std::vector<TorusDimension> dimensions;
  std::set<std::string> media;
  uint64_t chips = 1;
  for (size_t i = 0; i < sizes.size() && i < names.size() && i < rates.size(); ++i) {
    const int64_t size = sizes[i].value_or<int64_t>(0);
    const double rate = rates[i].value_or<double>(0);
    const std::string medium = names[i].value_or<std::string>("");
    if (medium.empty() || !media.insert(medium).second)
      table.fail(&names, "names must be distinct, non-empty strings");
    chips *= static_cast<uint64_t>(std::max<int64_t>(size, 1));
    if (size < 1 || size > kMaxChips || rate <= 0 || chips > kMaxChips)
      table.fail(&sizes, "sizes and rates must be positive, for at most 4096 chips");
    dimensions.push_back(
        {medium, static_cast<uint32_t>(std::clamp<int64_t>(size, 1, kMaxChips)), rate * kGiga});
  }
  if (dimensions.empty() || names.size() != sizes.size() || rates.size() != sizes.size())
    table.fail(&sizes, "names, sizes and gigabytes_per_s must be lists of the same length");
  table.reject_unknown_keys();
  if (chips > kMaxChips) return {};
  return make_torus(dimensions, link_s);
}

Topology read_switched(Table& table, double link_s) {
  SwitchedRacks racks;
  racks.racks = table.count("racks", 16);
  racks.trays = table.count("trays", 64);
  racks.chips_per_tray = table.count("chips_per_tray", 16);
  racks.planes = table.count("planes", 16);
  racks.backplane = kGiga * table.number("backplane_gigabytes_per_s", 0, kMaxGigabytesPerS);
  racks.tray = kGiga * table.number("tray_gigabytes_per_s", 0, kMaxGigabytesPerS);
  racks.cross_rack = kGiga * table.number("cross_rack_gigabytes_per_s", 0, kMaxGigabytesPerS);
  racks.tray_switch = table.flag("tray_switch");
  table.reject_unknown_keys();
  return make_switched_racks(racks, link_s);
}

Topology read_rails(Table& table, const Topology& domain) {
  Rails rails;
  rails.domains = table.count("domains", kMaxDomains);
  rails.planes = table.count("planes", 16);
  if (table.has("lost_planes")) rails.lost_planes = table.integer("lost_planes", 0, 16);
  rails.bytes_per_s = kGiga * table.number("gigabytes_per_s", 1e-3, kMaxGigabytesPerS);
  rails.link_s = 1e-6 * table.number("link_latency_us", 0, 1e6);
  if (rails.lost_planes >= rails.planes)
    table.fail(nullptr, "lost_planes must be fewer than planes");
  if (rails.domains > kMaxChips * 16 / domain.chips)
    table.fail(nullptr, "domains must have at most 65536 chips in all");
  table.reject_unknown_keys();
  return make_rails(domain, rails);
}

std::string join_names(const std::vector<std::string>& media) {
  std::string text;
  for (const std::string& medium : media) text += (text.empty() ? "" : ", ") + medium;
  return text;
}

// [lanes]: MEDIUM = [active, redundant].
void read_lanes(const toml::table& lanes, Table& table, Topology& topology) {
  const std::vector<std::string>& media = topology.media;
  for (const auto& [key, node] : lanes) {
    const std::string medium(key.str());
    if (std::find(media.begin(), media.end(), medium) == media.end())
      return table.fail(&node, "no such medium: " + medium + "; there are " + join_names(media));
    const toml::array* const pair = node.as_array();
    const int64_t active =
        pair != nullptr && pair->size() == 2 ? (*pair)[0].value_or(int64_t{0}) : 0;
    const int64_t redundant = active > 0 ? (*pair)[1].value_or(int64_t{-1}) : -1;
    if (active < 1 || active > kMaxLanes || redundant < 0 || redundant > kMaxLanes)
      return table.fail(&node, "lanes of a medium are [active, redundant], as in [64, 16]");
    topology.lanes[medium] = {static_cast<uint32_t>(active), static_cast<uint32_t>(redundant)};
  }
}

// [[dead]]: medium, chip, optional peer, optional lanes (default: all).
std::vector<DeadLanes> read_dead(const toml::array& list, const std::string& file, Error& error) {
  std::vector<DeadLanes> all;
  for (const toml::node& node : list) {
    const toml::table none, &from = node.is_table() ? *node.as_table() : none;
    Table table(from, file, error);
    if (!node.is_table()) table.fail(&node, "dead must be a list of tables");
    DeadLanes dead{.medium = table.string("medium")};
    dead.chip = table.integer("chip", 0, 65535);
    if (table.has("peer")) dead.peer = table.integer("peer", 0, 65535);
    if (table.has("lanes")) dead.lanes = table.count("lanes", kMaxLanes);
    table.reject_unknown_keys();
    all.push_back(std::move(dead));
  }
  return all;
}

}  // namespace

Result<Topology> read_topology(const std::string& name) {
  std::string file = name;
  if (!std::filesystem::is_regular_file(file)) file = base::scenario_file(kFolder + name + ".toml");
  if (file.empty()) {
    std::string folders;
    for (const std::string& folder : base::scenario_folders())
      folders += " " + folder + "/" + kFolder;
    return Error{Code::not_found, "no topology '" + name + "': name a TOML file, or one (without " +
                                      ".toml) of" + folders};
  }
  const toml::parse_result parsed = toml::parse_file(file);
  if (!parsed)
    return Error{Code::invalid_argument, file + ":" +
                                             std::to_string(parsed.error().source().begin.line) +
                                             ": " + std::string(parsed.error().description())};
  Error error;
  Table table(parsed.table(), file, error);
  const double link_s = 1e-6 * table.number("link_latency_us", 0, 1e6);
  const toml::table *const torus = table.table("torus"), *const switched = table.table("switched");
  const toml::table *const rails = table.table("rails"), *const lanes = table.table("lanes");
  const toml::array none, &dead = table.has("dead") ? table.list("dead") : none;
  table.reject_unknown_keys();
  if ((torus == nullptr) == (switched == nullptr))
    table.fail(nullptr, "there must be a table [torus] or a table [switched]");
  if (!error.message.empty()) return error;
  Table inner(torus != nullptr ? *torus : *switched, file, error);
  Topology topology = torus != nullptr ? read_torus(inner, link_s) : read_switched(inner, link_s);
  if (!error.message.empty()) return error;
  if (rails != nullptr) {
    Table outer(*rails, file, error);
    topology = read_rails(outer, topology);
    if (!error.message.empty()) return error;
  }
  topology.name = std::filesystem::path(file).stem().string();
  if (const std::optional<uint32_t> chip = unreachable_chip(topology))
    table.fail(nullptr, "chip " + std::to_string(*chip) + " has no path to chip 0");
  if (lanes != nullptr) read_lanes(*lanes, table, topology);
  const std::vector<DeadLanes> lost = read_dead(dead, file, error);
  if (!error.message.empty()) return error;
  if (const Result<void> taken = remove_dead_lanes(topology, lost); !taken)
    return Error{taken.error().code, file + ": " + taken.error().message};
  return topology;
}

}  // namespace weft::collective

#else

namespace weft::collective {

Result<Topology> read_topology(const std::string& name) {
  return Error{Code::not_supported,
               "cannot read " + name + ": weft was built without toml++ (libtomlplusplus-dev)"};
}

}  // namespace weft::collective

#endif
