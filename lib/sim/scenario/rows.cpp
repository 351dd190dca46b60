// SPDX-License-Identifier: BSD-3-Clause
// See rows.hpp.
#if __has_include(<toml++/toml.h>)

#include "lib/sim/scenario/rows.hpp"

#include <algorithm>
#include <vector>

namespace weft::sim::scenario {
namespace {

// Rows of numbers, [[1, 2, 100], [1, 3, 100]], of `least` to `most` numbers.
std::vector<std::vector<double>> rows_of(Section& section, std::string_view key, size_t least,
                                         size_t most) {
  std::vector<std::vector<double>> rows;
  const toml::node* const node = section.node(key);
  const toml::array* const list = node != nullptr ? node->as_array() : nullptr;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    std::vector<double>& row = rows.emplace_back();
    if (const toml::array* const numbers = list->get(i)->as_array())
      for (const toml::node& number : *numbers) row.push_back(number.value<double>().value_or(-1));
    const bool good =
        row.size() >= least && row.size() <= most &&
        std::all_of(row.begin(), row.end(), [](double x) { return x >= 0 && x < 9e15; });
    if (good) continue;
    section.fail(key, "row " + std::to_string(i + 1) + " must have " + std::to_string(least) +
                          " to " + std::to_string(most) + " numbers, 0 or more");
    return {};
  }
  if (rows.empty()) section.fail(key, "must be a list of rows");
  return rows;
}

}  // namespace

Result<fabric::Topology> read_link_rows(Section& section) {
  std::vector<fabric::Cable> cables;
  for (const std::vector<double>& row : rows_of(section, "links", 4, 4)) {
    constexpr double kNodes = fabric::Topology::kNone, kGbps = 4000;
    if (row[0] >= kNodes || row[1] >= kNodes || row[2] < 0.001 || row[2] > kGbps)
      return Error{Code::invalid_argument, "a link is [node, node, 0.001 to 4000 Gb/s, ns]"};
    cables.push_back({static_cast<uint32_t>(row[0]), static_cast<uint32_t>(row[1]),
                      static_cast<uint32_t>(row[2] * 1000), static_cast<int64_t>(row[3])});
  }
  if (cables.empty()) return Error{Code::invalid_argument, "has no links"};
  return fabric::Topology::make(std::move(cables));
}

FlowList read_flow_rows(Reader& reader, Section& section, const fabric::Topology& topology) {
  FlowList flows;
  for (const std::vector<double>& row : rows_of(section, "rows", 4, 4)) {
    const bool hosts = row[1] < topology.node_count() && row[2] < topology.node_count();
    if (!hosts || row[3] < 1)
      section.fail("rows", "row " + std::to_string(flows.size() + 1) +
                               " must be [start in ns, host, host, 1 or more bytes]");
    if (reader.failed()) return {};
    flows.push_back({.start_ns = static_cast<int64_t>(row[0]),
                     .src = static_cast<uint32_t>(row[1]),
                     .dst = static_cast<uint32_t>(row[2]),
                     .bytes = static_cast<uint64_t>(row[3])});
  }
  return flows;
}

}  // namespace weft::sim::scenario

#endif
