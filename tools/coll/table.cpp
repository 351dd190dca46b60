// SPDX-License-Identifier: BSD-3-Clause
// Prints nccl-tests' columns, and writes the same figures as JSON.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/collective/plan/schedule.hpp"
#include "tools/coll/measure.hpp"

namespace weft::bench {
namespace {

bool wants(const CollOptions& options, const char* column) {
  return std::find(options.stats.begin(), options.stats.end(), column) != options.stats.end();
}

double algorithm_bandwidth(const CollRow& row, const CollFigure& figure) {
  return figure.average_us > 0 ? static_cast<double>(row.bytes) / figure.average_us / 1e3 : 0;
}

void print_figure(const CollOptions& options, uint32_t ranks, const CollRow& row,
                  const CollFigure& figure) {
  const double bandwidth = algorithm_bandwidth(row, figure);
  std::printf("  %9.2f", figure.average_us);
  if (wants(options, "p50")) std::printf(" %9.2f", figure.p50_us);
  if (wants(options, "p99")) std::printf(" %9.2f", figure.p99_us);
  std::printf(" %7.3f %7.3f", bandwidth, bandwidth * bus_factor(options.collective, ranks));
  if (figure.predicted_us > 0)
    std::printf(" %9.2f %6.1f", figure.predicted_us,
                100 * (figure.predicted_us / figure.p50_us - 1));
  if (options.check)
    std::printf(" %6lu", static_cast<unsigned long>(figure.wrong));
  else
    std::printf(" %6s", "N/A");
}

void print_titles(const CollOptions& options) {
  std::printf("  %9s", "time");
  if (wants(options, "p50")) std::printf(" %9s", "p50");
  if (wants(options, "p99")) std::printf(" %9s", "p99");
  std::printf(" %7s %7s", "algbw", "busbw");
  if (!options.communicator.topology.empty()) std::printf(" %9s %6s", "predicted", "off %");
  std::printf(" %6s", "#wrong");
}

// nccl-tests' placeholders for calls without an operator or root.
std::string reduction_name(const CollOptions& options) {
  const bool reduces =
      collective::reduces(options.collective) && options.collective != Collective::barrier;
  return reduces ? std::string(name(options.op)) : "none";
}
int root_of(const CollOptions& options) {
  return has_root(options.collective) ? static_cast<int>(options.root) : -1;
}

nlohmann::json json_of(const CollOptions& options, uint32_t ranks, const CollRow& row,
                       const CollFigure& figure) {
  const double bandwidth = algorithm_bandwidth(row, figure);
  nlohmann::json json = {{"time_us", figure.average_us},
                         {"p50_us", figure.p50_us},
                         {"p99_us", figure.p99_us},
                         {"cpu_us", figure.cpu_us},
                         {"algbw_GBps", bandwidth},
                         {"busbw_GBps", bandwidth * bus_factor(options.collective, ranks)},
                         {"algorithm", figure.algorithm}};
  if (figure.background_gbps)  // "beside_GBps" is the former name
    json["background_GBps"] = json["beside_GBps"] = *figure.background_gbps;
  if (figure.predicted_us > 0) json["predicted_us"] = figure.predicted_us;
  if (options.check) json["wrong"] = figure.wrong;
  return json;
}

}  // namespace

void print_coll_head(const CollOptions& options, const Placement& placement,
                     const std::string& device) {
  std::printf("# weft_coll %s: %u ranks, %s, %u calls after %u\n", operation_name(options).c_str(),
              placement.ranks, device.empty() ? "default device" : device.c_str(),
              options.iterations, options.warmup);
  const bool of_experts = uses_experts(options.collective);
  if (of_experts)
    std::printf("# %u experts on each rank, %u for each token, of %u elements\n",
                options.experts_per_rank, options.choices, options.width);
  std::printf("# times in us, of the slowest rank in each call; GB/s are 10^9 bytes\n");
  std::printf("#%11s %12s %10s %6s %4s", "size", "count", "type", "redop", "root");
  const bool two_forms = has_in_place(options.collective);
  print_titles(options);
  if (two_forms) print_titles(options);
  std::printf("%s\n", options.show_algorithm ? "  algorithm" : "");
  std::printf("#%11s %12s %22s  %s\n", "(bytes)", of_experts ? "(tokens)" : "(elements)", "",
              two_forms ? "out of place, then in place" : "out of place");
  std::fflush(stdout);
}

void print_coll_row(const CollOptions& options, uint32_t ranks, const CollRow& row) {
  std::printf(" %11lu %12lu %10s %6s %4d", static_cast<unsigned long>(row.bytes),
              static_cast<unsigned long>(row.count), std::string(name(options.type)).c_str(),
              reduction_name(options).c_str(), root_of(options));
  print_figure(options, ranks, row, row.out_of_place);
  if (has_in_place(options.collective)) print_figure(options, ranks, row, row.in_place);
  if (options.show_algorithm) std::printf("  %s", row.out_of_place.algorithm.c_str());
  std::printf("\n");
  std::fflush(stdout);
}

namespace {

// Relative error of the median times, relative to the prediction.
void print_error(const std::vector<CollRow>& rows) {
  std::vector<double> errors;
  for (const CollRow& row : rows)
    for (const CollFigure* const figure : {&row.out_of_place, &row.in_place})
      if (figure->predicted_us > 0)
        errors.push_back(std::abs(figure->predicted_us / figure->p50_us - 1));
  if (errors.empty()) return;
  std::sort(errors.begin(), errors.end());
  std::printf("# Median prediction error, of the median time: %.1f %%\n",
              100 * errors[errors.size() / 2]);
}

}  // namespace

void print_coll_foot(const CollOptions& options, uint32_t ranks, const std::vector<CollRow>& rows) {
  double sum = 0, figures = 0;
  uint64_t wrong = 0;
  for (const CollRow& row : rows)
    for (const CollFigure* const figure : {&row.out_of_place, &row.in_place}) {
      if (figure->algorithm.empty()) continue;  // the operation has no in-place form
      if (figure->background_gbps)
        std::printf("# Background calls, %s: %.3f GB/s\n",
                    figure == &row.in_place ? "in place" : "out of place",
                    *figure->background_gbps);
      sum += algorithm_bandwidth(row, *figure);
      wrong += figure->wrong;
      ++figures;
    }
  const double average = figures > 0 ? sum / figures : 0;
  if (options.check)
    std::printf("# Wrong elements: %lu %s\n", static_cast<unsigned long>(wrong),
                wrong == 0 ? "OK" : "FAILED");
  else
    std::printf("# Results were not checked\n");
  print_error(rows);
  std::printf("# Avg bus bandwidth: %.3f GB/s\n", average * bus_factor(options.collective, ranks));
}

Result<void> write_coll_json(const CollOptions& options, uint32_t ranks,
                             const std::vector<CollRow>& rows) {
  nlohmann::json json = {{"operation", operation_name(options)},  {"ranks", ranks},
                         {"device", options.communicator.device}, {"type", name(options.type)},
                         {"iterations", options.iterations},      {"warmup", options.warmup},
                         {"results", nlohmann::json::array()}};
  if (uses_experts(options.collective))
    json.update({{"experts", options.experts_per_rank},
                 {"choices", options.choices},
                 {"width", options.width}});
  for (const CollRow& row : rows) {
    json["results"].push_back({{"size", row.bytes},
                               {"count", row.count},
                               {"type", name(options.type)},
                               {"redop", reduction_name(options)},
                               {"root", root_of(options)},
                               {"out_of_place", json_of(options, ranks, row, row.out_of_place)}});
    if (!row.in_place.algorithm.empty())
      json["results"].back()["in_place"] = json_of(options, ranks, row, row.in_place);
  }
  std::ofstream file(options.files.json);
  file << json.dump(2) << "\n";
  if (file) return {};
  return Error{Code::io_error, "cannot write " + options.files.json};
}

}  // namespace weft::bench
