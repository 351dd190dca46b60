// SPDX-License-Identifier: BSD-3-Clause
// See saved_result.hpp. output.cpp writes what this reads.
#include "tools/sim/saved_result.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weft::bench {
namespace {

namespace fs = std::filesystem;

Error unreadable(const fs::path& path, const std::string& why) {
  return Error{Code::invalid_argument, path.string() + ": " + why};
}

double number_of(const std::string& text) {
  double value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// A file of commas; row 0 names the columns.
Result<std::vector<std::vector<std::string>>> read_rows(const fs::path& path) {
  std::ifstream in(path);
  if (!in) return unreadable(path, std::string("cannot be read: ") + std::strerror(errno));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = line.find(',', begin);
      row.push_back(line.substr(begin, end - begin));
    }
    if (row.size() != rows[0].size())
      return unreadable(path, "line " + std::to_string(rows.size()) + " has " +
                                  std::to_string(row.size()) + " fields, the first has " +
                                  std::to_string(rows[0].size()));
  }
  if (rows.empty()) return unreadable(path, "is empty");
  return rows;
}

void add_numbers(const std::string& prefix, const nlohmann::json& from, Figures& figures) {
  for (const auto& [key, value] : from.items())
    if (value.is_number()) figures[prefix + key] = value.get<double>();
}

Figures saved_figures(const nlohmann::json& run) {
  Figures figures;
  add_numbers("", run, figures);
  figures.erase("seconds");  // of the machine that ran it
  for (const char* const group : {"fct_us", "jain"})
    if (run.contains(group)) add_numbers(std::string(group) + ".", run[group], figures);
  for (const nlohmann::json& bucket : run.value("slowdown", nlohmann::json::array())) {
    if (bucket.value("flows", 0) == 0) continue;
    const nlohmann::json to = bucket.value("to_bytes", nlohmann::json());
    const bool all = to.is_null() && bucket.value("above_bytes", 0.0) == 0;
    const std::string name = all            ? "all"
                             : to.is_null() ? "larger"
                                            : "to_" + std::to_string(to.get<uint64_t>());
    add_numbers("slowdown." + name + ".", bucket, figures);
  }
  for (const nlohmann::json& job : run.value("jobs", nlohmann::json::array())) {
    const std::string prefix = "jobs." + job.value("name", "") + ".";
    add_numbers(prefix, job, figures);
    if (job.contains("slowest_link"))
      figures[prefix + "slowest_link.utilisation"] = job["slowest_link"].value("utilisation", 0.0);
  }
  return figures;
}

Result<void> read_flows(const fs::path& path, std::map<std::string, SavedRun*>& runs) {
  Result<std::vector<std::vector<std::string>>> rows = read_rows(path);
  if (!rows) return rows.error();
  const std::vector<std::string>& head = rows->front();
  for (auto& [label, run] : runs) {
    size_t column = 0;
    while (column < head.size() && head[column] != "fct_" + label + "_ns") ++column;
    if (column == head.size()) return unreadable(path, "has no column fct_" + label + "_ns");
    for (size_t i = 1; i < rows->size(); ++i) {
      const std::vector<std::string>& row = (*rows)[i];
      run->flows.push_back({static_cast<uint32_t>(number_of(row[0])),
                            static_cast<uint32_t>(number_of(row[1])),
                            static_cast<uint64_t>(number_of(row[2])), number_of(row[column])});
    }
  }
  return {};
}

Result<void> read_links(const fs::path& path, std::map<std::string, SavedRun*>& runs) {
  Result<std::vector<std::vector<std::string>>> rows = read_rows(path);
  if (!rows) return rows.error();
  if (rows->front().size() < 7) return unreadable(path, "has fewer than seven columns");
  for (size_t i = 1; i < rows->size(); ++i) {
    const std::vector<std::string>& row = (*rows)[i];
    const auto run = runs.find(row[0]);
    if (run == runs.end()) continue;
    run->second->links[{static_cast<uint32_t>(number_of(row[1])),
                        static_cast<uint32_t>(number_of(row[2]))}] = {
        number_of(row[3]), number_of(row[4]), number_of(row[5]), number_of(row[6])};
  }
  return {};
}

Result<void> read_seed(const fs::path& folder, SavedResult& result) {
  const fs::path path = folder / "summary.json";
  std::ifstream in(path);
  if (!in) return unreadable(path, std::string("cannot be read: ") + std::strerror(errno));
  const nlohmann::json summary = nlohmann::json::parse(in, nullptr, false);
  if (summary.is_discarded() || !summary.contains("runs"))
    return unreadable(path, "is no summary of weft_sim");
  std::map<std::string, SavedRun*> runs;
  try {
    const uint64_t seed = summary.value("seed", uint64_t{1});
    for (const nlohmann::json& run : summary["runs"]) {
      const std::string label = run.value("controller", "");
      SavedRun& saved = result[label][seed];
      saved.figures = saved_figures(run);
      saved.digest = run.value("digest", "");
      runs[label] = &saved;
    }
  } catch (const nlohmann::json::exception& wrong) {  // a value of another type than ours
    return unreadable(path, wrong.what());
  }
  Result<void> done = read_flows(folder / "flows.csv", runs);
  return done ? read_links(folder / "links.csv", runs) : done;
}

}  // namespace

Result<SavedResult> read_result(const std::string& folder) {
  SavedResult result;
  std::error_code error;
  if (fs::exists(fs::path(folder) / "summary.json", error)) {
    Result<void> read = read_seed(folder, result);
    if (!read) return read.error();
    return result;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with("seed_")) continue;
    Result<void> read = read_seed(entry.path(), result);
    if (!read) return read.error();
  }
  if (result.empty())
    return unreadable(folder, "has no summary.json and no folder seed_N: give a folder of --out");
  return result;
}

}  // namespace weft::bench
