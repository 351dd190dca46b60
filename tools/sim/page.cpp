// SPDX-License-Identifier: BSD-3-Clause
// report.html: one page with the plots of a comparison, all controllers side by side. It loads
// nothing from anywhere.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tools/chart/chart.hpp"
#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

using Comparisons = std::vector<Comparison>;

constexpr const char* kStyle =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1300px;padding:0 1em;"
    "color:#222}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}"
    ".row{display:flex;flex-wrap:wrap;gap:1em}.row svg{flex:1 1 520px;max-width:640px}"
    "svg text{font-size:12px;fill:#444}svg .t{font-size:14px;font-weight:600;fill:#222}"
    ".g{stroke:#e4e4e4;fill:none}.a{stroke:#666;fill:none}.l{fill:none;stroke-width:1.8}"
    "table{border-collapse:collapse}td,th{padding:.25em .8em;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}";

// The figure of one bucket over all seeds, sorted.
std::vector<double> over_seeds(const Comparisons& comparisons, size_t outcome, size_t bucket,
                               double share) {
  std::vector<double> values;
  for (const Comparison& c : comparisons) {
    const double value = slowdowns(c, c.outcomes[outcome])[bucket].percentile(share);
    if (value > 0) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::string slowdown_chart(const Comparisons& comparisons, double share, const char* title) {
  const Comparison& first = comparisons.front();
  Chart chart{.title = title, .x_name = "flow size", .y_name = "FCT / ideal", .log_y = true};
  const std::vector<Bucket> buckets = slowdowns(first, first.outcomes[0]);
  for (size_t b = 0; b + 1 < buckets.size(); ++b) chart.categories.push_back(buckets[b].name());
  for (size_t i = 0; i < first.outcomes.size(); ++i) {
    Line line{.name = first.outcomes[i].label, .colour = i};
    for (size_t b = 0; b + 1 < buckets.size(); ++b) {
      const std::vector<double> values = over_seeds(comparisons, i, b, share);
      if (values.empty()) continue;
      line.x.push_back(double(b));
      line.y.push_back(values[values.size() / 2]);
      if (comparisons.size() == 1) continue;
      line.low.push_back(values.front());
      line.high.push_back(values.back());
    }
    chart.lines.push_back(std::move(line));
  }
  // Names of every second bucket only, if they would run into each other.
  if (chart.categories.size() > 5)
    for (size_t b = 1; b < chart.categories.size(); b += 2) chart.categories[b].clear();
  return svg(chart);
}

std::string queue_chart(const Comparison& comparison) {
  Chart chart{.title = "Queue of all switch ports",
              .x_name = "KB",
              .y_name = "share of samples that are longer",
              .log_x = true,
              .log_y = true};
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    const sim::flow::QueueSamples& queues = comparison.outcomes[i].result.queues;
    Line line{.name = comparison.outcomes[i].label, .colour = i};
    uint64_t longer = queues.count();
    double drawn = 0;
    for (size_t kb = 0; kb < queues.histogram().size(); ++kb) {
      longer -= queues.histogram()[kb];
      // At most some 200 points per line.
      if (double(kb) < drawn * 1.03) continue;
      drawn = std::max(1.0, double(kb));
      line.x.push_back(double(kb));
      line.y.push_back(double(longer) / double(std::max<uint64_t>(queues.count(), 1)));
    }
    chart.lines.push_back(std::move(line));
  }
  return svg(chart);
}

std::string longest_queue_chart(const Comparison& comparison) {
  Chart chart{.title = "Longest queue over time", .x_name = "us", .y_name = "KB"};
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    Line line{.name = comparison.outcomes[i].label, .colour = i};
    for (const sim::flow::Series::Point& point : comparison.outcomes[i].result.series.points()) {
      line.x.push_back(double(point.at_ns) / 1e3);
      line.y.push_back(double(point.longest_queue) / 1e3);
    }
    chart.lines.push_back(std::move(line));
  }
  return svg(chart);
}

// The rates of the first flows of the list under one controller.
std::string rate_chart(const Outcome& outcome, size_t colour) {
  Chart chart{
      .title = outcome.label + ": rates of the first flows", .x_name = "us", .y_name = "Gb/s"};
  for (size_t flow = 0; flow < sim::flow::Series::kFlows; ++flow) {
    Line line{.colour = colour + flow};
    for (const sim::flow::Series::Point& point : outcome.result.series.points()) {
      if (point.gbps[flow] <= 0) continue;
      line.x.push_back(double(point.at_ns) / 1e3);
      line.y.push_back(point.gbps[flow]);
    }
    if (!line.x.empty()) chart.lines.push_back(std::move(line));
  }
  return svg(chart);
}

std::string table(const Comparison& comparison) {
  std::string out =
      "<table><tr><th>controller<th>finished<th>slowdown p50<th>p95<th>p99<th>queue p50, KB"
      "<th>p95<th>p99<th>max<th>PFC pauses<th>drops</tr>\n";
  for (const Outcome& outcome : comparison.outcomes) {
    const sim::flow::RunResult& r = outcome.result;
    const Bucket all = slowdowns(comparison, outcome).back();
    char row[512];
    std::snprintf(row, sizeof row,
                  "<td>%zu of %zu<td>%.2f<td>%.2f<td>%.2f<td>%llu<td>%llu<td>%llu<td>%llu<td>%llu"
                  "<td>%llu</tr>\n",
                  finished(outcome), r.flows.size(), all.percentile(0.5), all.percentile(0.95),
                  all.percentile(0.99),
                  static_cast<unsigned long long>(r.queues.percentile_kb(0.5)),
                  static_cast<unsigned long long>(r.queues.percentile_kb(0.95)),
                  static_cast<unsigned long long>(r.queues.percentile_kb(0.99)),
                  static_cast<unsigned long long>(r.queues.most_kb()),
                  static_cast<unsigned long long>(r.counters.pauses),
                  static_cast<unsigned long long>(r.counters.dropped));
    out += "<tr><td>" + escaped(outcome.label) + row;
  }
  return out + "</table>\n";
}

}  // namespace

Result<void> write_page(const Comparisons& comparisons, const std::string& folder) {
  const Comparison& first = comparisons.front();
  const std::filesystem::path path = std::filesystem::path(folder) / "report.html";
  std::ofstream out(path);
  const std::string title = first.scenario.title.empty() ? "weft_sim" : first.scenario.title;
  out << "<!doctype html><meta charset='utf-8'><title>" << escaped(title) << "</title><style>"
      << kStyle << "</style>\n<h1>" << escaped(title) << "</h1>\n<p>" << first.scenario.flows.size()
      << " flows, " << first.scenario.topology.hosts().size() << " hosts; seed " << first.seed;
  if (comparisons.size() > 1)
    out << " to " << comparisons.back().seed << " (bands: least and most of the seeds; what has "
        << "no band is the first seed's)";
  out << ". Every parameter in force is in summary.json.</p>\n" << table(first);
  out << "<h2>Flow completion</h2><div class='row'>"
      << slowdown_chart(comparisons, 0.5, "FCT slowdown, median")
      << slowdown_chart(comparisons, 0.99, "FCT slowdown, 99th percentile") << "</div>\n";
  if (first.options.sample_ns > 0) {
    out << "<h2>Queues</h2><div class='row'>" << queue_chart(first) << longest_queue_chart(first)
        << "</div>\n<h2>Rates over time</h2><div class='row'>";
    for (size_t i = 0; i < first.outcomes.size(); ++i) out << rate_chart(first.outcomes[i], 0);
    out << "</div>\n";
  }
  out.flush();
  if (!out) return Error{Code::io_error, path.string() + ": cannot be written"};
  return {};
}

}  // namespace weft::bench
