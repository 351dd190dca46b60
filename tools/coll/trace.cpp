// SPDX-License-Identifier: BSD-3-Clause
// Traces are texts of different lengths: an all_gather_v brings them together.
#include "tools/coll/trace.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace weft::bench {
namespace {

Result<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (file) return {};
  return Error{Code::io_error, "cannot write " + path};
}

}  // namespace

Result<void> write_merged_trace(Communicator& group, const std::string& path) {
  const std::string own = group.trace();
  std::vector<size_t> sizes(group.size());
  const size_t size = own.size();
  if (Result<void> told = group.all_gather(&size, sizes.data(), 1, DataType::int64).wait(); !told)
    return told;
  std::string all(std::accumulate(sizes.begin(), sizes.end(), size_t{0}), ' ');
  Result<void> gathered = group.all_gather_v(own.data(), all.data(), sizes, DataType::uint8).wait();
  if (!gathered || group.rank() != 0) return gathered;
  nlohmann::json merged;
  size_t from = 0;
  for (const size_t bytes : sizes) {
    const nlohmann::json one = nlohmann::json::parse(all.substr(from, bytes));
    from += bytes;
    if (merged.empty())
      merged = one;
    else
      for (const nlohmann::json& event : one["traceEvents"]) merged["traceEvents"].push_back(event);
  }
  return write_text(path, merged.dump() + "\n");
}

Result<void> write_own_records(const Communicator& group, const CollOptions& options) {
  const std::string rank = "." + std::to_string(group.rank());
  Result<void> written;
  if (!options.communicator.dump.empty())
    written = write_text(options.communicator.dump + "." + options.communicator.name + rank,
                         group.dump());
  if (written && !options.files.prometheus.empty())
    written = write_text(options.files.prometheus + rank, group.prometheus());
  return written;
}

Result<void> write_own_trace(const Communicator& group, const std::string& path) {
  return write_text(path + "." + std::to_string(group.rank()), group.trace());
}

}  // namespace weft::bench
