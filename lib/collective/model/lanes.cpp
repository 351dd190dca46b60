// SPDX-License-Identifier: BSD-3-Clause
// Removes lanes from links, and links from networks.
#include "lib/collective/model/lanes.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

Error invalid(const std::string& text) { return {Code::invalid_argument, text}; }

bool parse_number(std::string_view text, uint32_t& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size();
}

bool matches(const NetworkLink& link, const DeadLanes& dead) {
  const auto ends = [&](uint32_t a, uint32_t b) {
    return a == dead.chip && (dead.peer == DeadLanes::kAll || b == dead.peer);
  };
  return link.medium == dead.medium && (ends(link.from, link.to) || ends(link.to, link.from));
}

// The fraction of a link's rate that remains.
double remaining_fraction(const Lanes& lanes, uint32_t dead) {
  WEFT_DCHECK(lanes.active > 0);
  if (dead >= lanes.active + lanes.redundant) return 0;
  const uint32_t alive = std::min(lanes.active, lanes.active + lanes.redundant - dead);
  return static_cast<double>(alive) / lanes.active;
}

// Bytes per second out of each chip over a medium.
std::vector<double> rates_of(const Topology& topology, const std::string& medium) {
  std::vector<double> rates(topology.chips);
  for (const NetworkLink& link : topology.links)
    if (link.medium == medium && link.from < topology.chips) rates[link.from] += link.bytes_per_s;
  return rates;
}

// Scales each dimension's rate to that of its slowest chip. A chip without links in a dimension
// sends through its neighbours, at half their rate.
void reduce_dimension_rates(Topology& now, const Topology& before) {
  for (size_t d = 0; d < now.dimensions.size() && d < now.media.size(); ++d) {
    const std::vector<double> rate_before = rates_of(before, now.media[d]);
    const std::vector<double> rate_now = rates_of(now, now.media[d]);
    double least = 1;
    WEFT_DCHECK(rate_before.size() == now.chips && rate_now.size() == now.chips);
    for (uint32_t chip = 0; chip < now.chips; ++chip)
      if (rate_before[chip] > 0) least = std::min(least, rate_now[chip] / rate_before[chip]);
    now.dimensions[d].rate *= least > 0 ? least : 0.5;
  }
}

}  // namespace

Result<DeadLanes> parse_dead_lanes(const std::string& text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  const Error syntax_error = invalid("'" + text +
                                     "' is no MEDIUM:CHIP:LANES or MEDIUM:CHIP-CHIP:LANES, as "
                                     "in backplane:5:20 or x:5-6:all");
  if (first == std::string::npos || second == std::string::npos || first == 0) return syntax_error;
  DeadLanes dead{.medium = text.substr(0, first)};
  const std::string chips = text.substr(first + 1, second - first - 1);
  const std::string lanes = text.substr(second + 1);
  const size_t dash = chips.find('-');
  if (!parse_number(chips.substr(0, dash), dead.chip)) return syntax_error;
  if (dash != std::string::npos && !parse_number(chips.substr(dash + 1), dead.peer))
    return syntax_error;
  if (lanes != "all" && !parse_number(lanes, dead.lanes)) return syntax_error;
  return dead;
}

Result<void> remove_dead_lanes(Topology& topology, const std::vector<DeadLanes>& dead) {
  if (dead.empty()) return {};
  const Topology before = topology;
  std::map<size_t, uint32_t> dead_lanes_of_link;
  std::set<uint32_t> affected;
  for (const DeadLanes& each : dead) {
    const auto lanes = topology.lanes.find(each.medium);
    if (each.lanes != DeadLanes::kAll && lanes == topology.lanes.end())
      return invalid(topology.name + " does not say how many lanes " + each.medium +
                     " links have: add [lanes] to its file, or say 'all'");
    bool found = false;
    for (size_t i = 0; i < topology.links.size(); ++i) {
      if (!matches(topology.links[i], each)) continue;
      found = true;
      uint32_t& sum = dead_lanes_of_link[i];
      sum = each.lanes > DeadLanes::kAll - sum ? DeadLanes::kAll : sum + each.lanes;
      for (const uint32_t end : {topology.links[i].from, topology.links[i].to})
        if (end < topology.chips) affected.insert(end);
    }
    if (!found)
      return invalid("chip " + std::to_string(each.chip) + " of " + topology.name + " has no " +
                     each.medium + " link" +
                     (each.peer == DeadLanes::kAll ? "" : " to chip " + std::to_string(each.peer)));
  }
  for (const auto& [link, count] : dead_lanes_of_link) {
    NetworkLink& of = topology.links[link];
    WEFT_DCHECK(of.bytes_per_s >= 0);
    const auto lanes = topology.lanes.find(of.medium);
    of.bytes_per_s *= count == DeadLanes::kAll ? 0 : remaining_fraction(lanes->second, count);
  }
  std::erase_if(topology.links, [](const NetworkLink& link) { return link.bytes_per_s <= 0; });
  if (const std::optional<uint32_t> chip = unreachable_chip(topology))
    return invalid("chip " + std::to_string(*chip) + " of " + topology.name + " is cut off");
  for (const uint32_t chip : affected) {
    Cut cut{"chip " + std::to_string(chip), std::vector<bool>(topology.chips)};
    cut.inside[chip] = true;
    topology.cuts.push_back(std::move(cut));
  }
  reduce_dimension_rates(topology, before);
  return {};
}

}  // namespace weft::collective
