// SPDX-License-Identifier: BSD-3-Clause
// See diff.hpp. Labels of controllers are matched by name; if both results have one, these two are
// compared whatever their names.
#include "tools/sim/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim/saved_result.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSame = 1e-9;  // relative: figures are printed with fewer digits

// A figure over seeds.
struct Band {
  double low = 0, median = 0, high = 0;
  size_t seeds = 0;
};

Band band_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back(), values.size()};
}

bool differ(double a, double b) {
  return std::abs(a - b) > kSame * std::max(std::abs(a), std::abs(b));
}

// The bands do not touch.
bool changed(const Band& before, const Band& after) {
  return differ(before.low, after.high) && differ(before.high, after.low) &&
         (before.high < after.low || after.high < before.low);
}

struct Row {
  std::string name;
  Band before, after;
  bool is_changed() const { return changed(before, after); }
  // How many times as large, as a distance from 1 in either direction.
  double distance() const {
    const double a = std::max(std::abs(before.median), 1e-12);
    const double b = std::max(std::abs(after.median), 1e-12);
    return std::abs(std::log(b / a));
  }
};

using Seeds = std::map<uint64_t, SavedRun>;

class Comparer {
 public:
  Comparer(const Seeds& before, const Seeds& after) : before_(before), after_(after) {}

  // Figures that both have; the changed ones first, by how much.
  std::vector<Row> figures() const {
    std::vector<Row> rows;
    for (const auto& [name, value] : before_.begin()->second.figures) {
      const auto figure = [&name = name](const SavedRun& run) {
        const auto found = run.figures.find(name);
        return found == run.figures.end() ? std::nan("") : found->second;
      };
      add(rows, name, figure);
    }
    return sorted(std::move(rows));
  }

  std::vector<Row> flows() const {
    std::vector<Row> rows;
    const std::vector<SavedFlow>& first = before_.begin()->second.flows;
    for (size_t i = 0; i < first.size(); ++i) {
      const auto fct_us = [&](const SavedRun& run) {
        const bool same = i < run.flows.size() && run.flows[i].src == first[i].src &&
                          run.flows[i].dst == first[i].dst &&
                          run.flows[i].bytes == first[i].bytes && run.flows[i].fct_ns >= 0;
        return same ? run.flows[i].fct_ns / 1e3 : std::nan("");
      };
      add(rows,
          "flow " + std::to_string(i) + " " + std::to_string(first[i].src) + ">" +
              std::to_string(first[i].dst) + " " + std::to_string(first[i].bytes) + " B",
          fct_us);
    }
    return sorted(std::move(rows));
  }

  // Of each link utilisation, longest queue and pauses.
  std::vector<Row> links() const {
    const std::pair<const char*, double SavedLink::*> kinds[] = {
        {"busy share", &SavedLink::utilisation},
        {"longest queue, B", &SavedLink::most_queue_bytes},
        {"paused, ns", &SavedLink::paused_ns}};
    std::vector<Row> rows;
    for (const auto& [nodes, link] : before_.begin()->second.links)
      for (const auto& [what, member] : kinds) {
        const auto value = [&nodes = nodes, member = member](const SavedRun& run) {
          const auto found = run.links.find(nodes);
          return found == run.links.end() ? std::nan("") : found->second.*member;
        };
        add(rows,
            "link " + std::to_string(nodes.first) + ">" + std::to_string(nodes.second) + " " + what,
            value);
      }
    return sorted(std::move(rows));
  }

  bool identical() const {
    if (before_.size() != after_.size()) return false;
    for (const auto& [seed, run] : before_) {
      const auto other = after_.find(seed);
      if (other == after_.end() || other->second.digest != run.digest) return false;
    }
    return true;
  }

 private:
  template <class Value>
  static Band over(const Seeds& seeds, Value value) {
    std::vector<double> values;
    for (const auto& [seed, run] : seeds)
      if (const double number = value(run); !std::isnan(number)) values.push_back(number);
    return band_of(std::move(values));
  }
  template <class Value>
  void add(std::vector<Row>& rows, const std::string& name, Value value) const {
    const Row row{name, over(before_, value), over(after_, value)};
    if (row.before.seeds > 0 && row.after.seeds > 0) rows.push_back(row);
  }
  static std::vector<Row> sorted(std::vector<Row> rows) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      if (a.is_changed() != b.is_changed()) return a.is_changed();
      return a.distance() > b.distance();
    });
    return rows;
  }

  const Seeds& before_;
  const Seeds& after_;
};

size_t count_changed(const std::vector<Row>& rows) {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.is_changed(); }));
}

std::string text_of(const Band& band) {
  char text[96];
  if (band.seeds == 1)
    std::snprintf(text, sizeof text, "%.6g", band.median);
  else
    std::snprintf(text, sizeof text, "%.6g (%.6g .. %.6g)", band.median, band.low, band.high);
  return text;
}

void print_rows(const char* what, const std::vector<Row>& rows, size_t most) {
  const size_t count = count_changed(rows);
  std::printf("  %s: %zu of %zu changed\n", what, count, rows.size());
  for (size_t i = 0; i < std::min(count, most); ++i) {
    const Row& row = rows[i];
    std::printf("    %-44s %s -> %s", row.name.c_str(), text_of(row.before).c_str(),
                text_of(row.after).c_str());
    if (row.before.median != 0)
      std::printf("  (%+.1f %%)", (row.after.median / row.before.median - 1) * 100);
    std::printf("\n");
  }
  if (count > most) std::printf("    and %zu more: --most %zu\n", count - most, count);
}

Json rows_as_json(const std::vector<Row>& rows, size_t most) {
  const auto band = [](const Band& b) {
    return Json{{"low", b.low}, {"median", b.median}, {"high", b.high}, {"seeds", b.seeds}};
  };
  Json list = Json::array();
  for (size_t i = 0; i < std::min(count_changed(rows), most); ++i)
    list.push_back(
        {{"name", rows[i].name}, {"before", band(rows[i].before)}, {"after", band(rows[i].after)}});
  return {{"compared", rows.size()}, {"changed", count_changed(rows)}, {"rows", list}};
}

// The runs to compare, by what they are called.
std::map<std::string, std::pair<const Seeds*, const Seeds*>> pairs_of(const SavedResult& before,
                                                                      const SavedResult& after) {
  std::map<std::string, std::pair<const Seeds*, const Seeds*>> pairs;
  for (const auto& [label, seeds] : before)
    if (const auto other = after.find(label); other != after.end())
      pairs[label] = {&seeds, &other->second};
  if (pairs.empty() && before.size() == 1 && after.size() == 1)
    pairs[before.begin()->first + " -> " + after.begin()->first] = {&before.begin()->second,
                                                                    &after.begin()->second};
  return pairs;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "weft_sim diff: %s\n", message.c_str());
  return 2;
}

}  // namespace

int command_diff(const DiffCommand& command) {
  const Result<SavedResult> before = read_result(command.before);
  if (!before) return refuse(before.error().message);
  const Result<SavedResult> after = read_result(command.after);
  if (!after) return refuse(after.error().message);
  const auto pairs = pairs_of(*before, *after);
  if (pairs.empty())
    return refuse("no controller is in both results: " + before->begin()->first + " ... and " +
                  after->begin()->first + " ...");
  bool any = false;
  Json json = Json::array();
  for (const auto& [label, runs] : pairs) {
    const Comparer comparer(*runs.first, *runs.second);
    const std::vector<Row> figures = comparer.figures(), flows = comparer.flows(),
                           links = comparer.links();
    any |= count_changed(figures) + count_changed(flows) + count_changed(links) > 0;
    json.push_back({{"controller", label},
                    {"identical", comparer.identical()},
                    {"figures", rows_as_json(figures, figures.size())},
                    {"flows", rows_as_json(flows, command.most)},
                    {"links", rows_as_json(links, command.most)}});
    if (command.json) continue;
    std::printf("%s: %zu and %zu seeds%s\n", label.c_str(), runs.first->size(), runs.second->size(),
                comparer.identical() ? ", the same events" : "");
    print_rows("figures", figures, figures.size());
    print_rows("flows, FCT in us", flows, command.most);
    print_rows("links", links, command.most);
  }
  if (command.json) std::printf("%s\n", json.dump(2).c_str());
  return any ? 1 : 0;
}

}  // namespace weft::bench
