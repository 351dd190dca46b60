// SPDX-License-Identifier: BSD-3-Clause
// One table of a TOML file, read key by key: a Section remembers the first error of its file and,
// at its end, refuses unknown keys, so that a misspelt key is an error.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "lib/sim/fabric/topology.hpp"
#include "lib/sim/scheme/parameters.hpp"
#include "weft/result.hpp"

namespace weft::sim::scenario {

struct Reader {
  std::string file;
  Error error{Code::invalid_argument, ""};

  bool failed() const { return !error.message.empty(); }
  void fail(const toml::node* node, const std::string& key, const std::string& reason) {
    if (failed()) return;
    error.message = file;
    if (node != nullptr) error.message += ":" + std::to_string(node->source().begin.line);
    error.message += ": " + (key.empty() ? "" : key + ": ") + reason;
  }
};

class Section {
 public:
  Section(Reader& reader, const toml::table& table, std::string name)
      : reader_(reader), table_(table), name_(std::move(name)) {}

  bool has(std::string_view key) const { return table_.contains(key); }
  std::string text(std::string_view key, std::string_view otherwise = {}) {
    return value<std::string>(key, std::string(otherwise), "must be a text in quotes");
  }
  double number(std::string_view key, double otherwise, double least = 0, double most = 1e15) {
    const double result = value<double>(key, otherwise, "must be a number");
    if (has(key) && (result < least || result > most)) {
      char range[80];
      std::snprintf(range, sizeof range, "must be within %g and %g", least, most);
      fail(key, range);
    }
    return result;
  }
  uint32_t count(std::string_view key, uint32_t otherwise) {
    return static_cast<uint32_t>(
        number(key, otherwise, 0, static_cast<double>(fabric::Topology::kNone - 1)));
  }
  bool flag(std::string_view key, bool otherwise) {
    return value<bool>(key, otherwise, "must be true or false");
  }
  // "2ms", or a number of ns.
  int64_t time_ns(std::string_view key, int64_t otherwise) {
    used_.insert(std::string(key));
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return otherwise;
    if (const auto whole = node->value_exact<int64_t>()) return *whole;
    Result<int64_t> time = flow::parse_time_ns(node->value_exact<std::string>().value_or("?"));
    if (!time) fail(key, "must be a time like \"2ms\" or a number of ns");
    return time ? *time : otherwise;
  }
  const toml::node* node(std::string_view key) {
    used_.insert(std::string(key));
    return table_.get(key);
  }
  void fail(std::string_view key, const std::string& reason) {
    const toml::node* const node = table_.get(key);
    const std::string name = name_.empty() ? std::string(key) : name_ + "." + std::string(key);
    reader_.fail(node != nullptr ? node : &table_, name, reason);
  }
  // Keys that were not asked for.
  void finish() {
    std::string valid;
    for (const std::string& key : used_) valid += (valid.empty() ? "" : ", ") + key;
    for (const auto& [key, node] : table_)
      if (used_.count(std::string(key.str())) == 0)
        fail(key.str(), "is no key here; there are " + valid);
  }

 private:
  template <class T>
  T value(std::string_view key, T otherwise, const char* wrong) {
    used_.insert(std::string(key));
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return otherwise;
    const std::optional<T> result = node->value<T>();
    if (!result) fail(key, wrong);
    return result.value_or(otherwise);
  }

  Reader& reader_;
  const toml::table& table_;
  std::string name_;
  std::set<std::string> used_;
};

}  // namespace weft::sim::scenario
