// SPDX-License-Identifier: BSD-3-Clause
// The plug-ins of one kind that a process has loaded, by number: for settings that keep a choice as
// a number.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/module/plugin.hpp"

namespace weft::base {

// Any thread. Numbers stay; the objects live as long as the process.
class PluginTable {
 public:
  explicit PluginTable(const PluginKind& kind) : kind_(kind) {}

  // The number of the plug-in `path`, which is loaded the first time.
  Result<size_t> load(const std::string& path) {
    const Result<const void*> exported = load_plugin(path, kind_);
    if (!exported) return exported.error();
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].exported == *exported) return i;
    rows_.push_back({*exported, path});
    return rows_.size() - 1;
  }
  const void* exported(size_t number) {
    const std::lock_guard lock(mutex_);
    WEFT_CHECK(number < rows_.size());
    return rows_[number].exported;
  }
  std::string path(size_t number) {
    const std::lock_guard lock(mutex_);
    WEFT_CHECK(number < rows_.size());
    return rows_[number].path;
  }

 private:
  struct Row {
    const void* exported;
    std::string path;
  };
  const PluginKind kind_;
  std::mutex mutex_;
  std::vector<Row> rows_;
};

}  // namespace weft::base
