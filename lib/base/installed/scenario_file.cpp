// SPDX-License-Identifier: BSD-3-Clause
// The search itself: environment, prefix of the installation, build tree.
#include "lib/base/installed/scenario_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "lib/base/installed/file_of.hpp"

namespace weft::base {
namespace fs = std::filesystem;

std::vector<std::string> scenario_folders() {
  std::vector<std::string> folders;
  if (const char* const named = std::getenv("WEFT_SCENARIOS"); named != nullptr) {
    const std::string list(named);
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(':', begin), list.size());
      if (end > begin) folders.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  fs::path above = file_of(reinterpret_cast<const void*>(&scenario_folders));
  above = above.parent_path();  // PREFIX/bin, PREFIX/lib or PREFIX/lib/x86_64-linux-gnu
  for (int level = 1; level <= 2; ++level) {
    above = above.parent_path();
    folders.push_back(above / "share/weft/scenarios");
  }
  above = above.parent_path();  // of build/PRESET/bin and build/PRESET/lib: the tree
  if (above.has_relative_path()) folders.push_back(above / "scenarios");
  return folders;
}

std::string scenario_file(const std::string& name) {
  std::error_code error;
  for (const std::string& folder : scenario_folders())
    if (const fs::path path = fs::path(folder) / name; fs::is_regular_file(path, error))
      return path;
  return {};
}

std::string file_beside(const std::string& file, const std::string& name) {
  std::error_code error;
  const fs::path beside = fs::path(file).parent_path() / name;  // `name`, if it is absolute
  if (fs::path(name).is_absolute() || fs::is_regular_file(beside, error)) return beside;
  const std::string found = scenario_file(name);
  return found.empty() ? beside.string() : found;
}

}  // namespace weft::base
