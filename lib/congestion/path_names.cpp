// SPDX-License-Identifier: BSD-3-Clause
// See path_names.hpp. Loaded policies are numbered behind the built-in ones.
#include "lib/congestion/path_names.hpp"

#include <algorithm>
#include <iterator>

#include "lib/base/module/plugin_table.hpp"

namespace weft::congestion {
namespace {

constexpr size_t kBuiltIn = std::size(kPathChoiceNames);

base::PluginTable& loaded() {
  static base::PluginTable table({.symbol = "weft_path_policy",
                                  .macro = "WEFT_PATH_POLICY(kYours)",
                                  .header = "weft/path_policy.hpp",
                                  .interface_number = kPathInterface});
  return table;
}

Result<PathChoice> load(const std::string& path) {
  const Result<size_t> number = loaded().load(path);
  if (!number) return number.error();
  if (*number > UINT8_MAX - kBuiltIn)
    return Error{Code::no_memory, path + ": 250 path policies are loaded already"};
  const auto* const kind = static_cast<const PathKind*>(loaded().exported(*number));
  if (kind->next == nullptr || kind->state_bytes > kMostPathState)
    return Error{Code::invalid_argument, path + ": a path policy needs `next`, and at most " +
                                             std::to_string(kMostPathState) +
                                             " bytes of state; this one wants " +
                                             std::to_string(kind->state_bytes)};
  return static_cast<PathChoice>(kBuiltIn + *number);
}

}  // namespace

Result<PathChoice> find_path_choice(std::string_view name) {
  if (base::is_plugin_path(name)) return load(std::string(name));
  const auto* const found =
      std::find(std::begin(kPathChoiceNames), std::end(kPathChoiceNames), name);
  if (found != std::end(kPathChoiceNames))
    return static_cast<PathChoice>(found - std::begin(kPathChoiceNames));
  std::string valid;
  for (const std::string_view known : kPathChoiceNames) valid += std::string(known) + ", ";
  return Error{Code::invalid_argument, "no path policy '" + std::string(name) + "'; there are " +
                                           valid + "and shared objects: ./mine.so"};
}

const PathKind* loaded_path_kind(PathChoice choice) {
  const auto number = static_cast<size_t>(choice);
  if (number < kBuiltIn) return nullptr;
  return static_cast<const PathKind*>(loaded().exported(number - kBuiltIn));
}

std::string path_choice_name(PathChoice choice) {
  const PathKind* const kind = loaded_path_kind(choice);
  return std::string(kind != nullptr ? kind->name : kPathChoiceNames[static_cast<size_t>(choice)]);
}

}  // namespace weft::congestion
