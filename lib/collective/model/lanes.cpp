// SPDX-License-Identifier: BSD-3-Clause
// Taking lanes from links, and links from networks.
#include "lib/collective/model/lanes.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace weft::collective {
namespace {

Error invalid(const std::string& text) { return {Code::invalid_argument, text}; }

bool parse_number(std::string_view text, uint32_t& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size();
}

bool is_meant(const NetworkLink& link, const DeadLanes& dead) {
  const auto ends = [&](uint32_t a, uint32_t b) {
    return a == dead.chip && (dead.peer == DeadLanes::kAll || b == dead.peer);
  };
  return link.medium == dead.medium && (ends(link.from, link.to) || ends(link.to, link.from));
}

// What is left of a link's rate.
double left(const Lanes& lanes, uint32_t dead) {
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

// Who has nothing left of a dimension sends around, over what others have: half of theirs.
void slow_down(Topology& now, const Topology& before) {
  for (size_t d = 0; d < now.dimensions.size() && d < now.media.size(); ++d) {
    const std::vector<double> was = rates_of(before, now.media[d]);
    const std::vector<double> is = rates_of(now, now.media[d]);
    double least = 1;
    for (uint32_t chip = 0; chip < now.chips; ++chip)
      if (was[chip] > 0) least = std::min(least, is[chip] / was[chip]);
    now.dimensions[d].rate *= least > 0 ? least : 0.5;
  }
}

}  // namespace

Result<DeadLanes> parse_dead_lanes(const std::string& text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  const Error wrong = invalid("'" + text +
                              "' is no MEDIUM:CHIP:LANES or MEDIUM:CHIP-CHIP:LANES, as "
                              "in backplane:5:20 or x:5-6:all");
  if (first == std::string::npos || second == std::string::npos || first == 0) return wrong;
  DeadLanes dead{.medium = text.substr(0, first)};
  const std::string chips = text.substr(first + 1, second - first - 1);
  const std::string lanes = text.substr(second + 1);
  const size_t dash = chips.find('-');
  if (!parse_number(chips.substr(0, dash), dead.chip)) return wrong;
  if (dash != std::string::npos && !parse_number(chips.substr(dash + 1), dead.peer)) return wrong;
  if (lanes != "all" && !parse_number(lanes, dead.lanes)) return wrong;
  return dead;
}

Result<void> take_dead_lanes(Topology& topology, const std::vector<DeadLanes>& dead) {
  if (dead.empty()) return {};
  const Topology before = topology;
  std::map<size_t, uint32_t> lost;  // lanes by link
  std::set<uint32_t> hurt;
  for (const DeadLanes& each : dead) {
    const auto lanes = topology.lanes.find(each.medium);
    if (each.lanes != DeadLanes::kAll && lanes == topology.lanes.end())
      return invalid(topology.name + " does not say how many lanes " + each.medium +
                     " links have: add [lanes] to its file, or say 'all'");
    bool found = false;
    for (size_t i = 0; i < topology.links.size(); ++i) {
      if (!is_meant(topology.links[i], each)) continue;
      found = true;
      uint32_t& sum = lost[i];
      sum = each.lanes > DeadLanes::kAll - sum ? DeadLanes::kAll : sum + each.lanes;
      for (const uint32_t end : {topology.links[i].from, topology.links[i].to})
        if (end < topology.chips) hurt.insert(end);
    }
    if (!found)
      return invalid("chip " + std::to_string(each.chip) + " of " + topology.name + " has no " +
                     each.medium + " link" +
                     (each.peer == DeadLanes::kAll ? "" : " to chip " + std::to_string(each.peer)));
  }
  for (const auto& [link, count] : lost) {
    NetworkLink& of = topology.links[link];
    const auto lanes = topology.lanes.find(of.medium);
    of.bytes_per_s *= count == DeadLanes::kAll ? 0 : left(lanes->second, count);
  }
  std::erase_if(topology.links, [](const NetworkLink& link) { return link.bytes_per_s <= 0; });
  if (const std::optional<uint32_t> chip = chip_cut_off(topology))
    return invalid("chip " + std::to_string(*chip) + " of " + topology.name + " is cut off");
  for (const uint32_t chip : hurt) {
    Cut cut{"chip " + std::to_string(chip), std::vector<bool>(topology.chips)};
    cut.inside[chip] = true;
    topology.cuts.push_back(std::move(cut));
  }
  slow_down(topology, before);
  return {};
}

}  // namespace weft::collective
