// SPDX-License-Identifier: BSD-3-Clause
// The words of a line, read one by one; what a word must be, and what is said if it is not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/script/step.hpp"
#include "tools/script/text.hpp"

namespace weft::script {

// The words after the first, taken one by one.
struct Rest {
  const std::vector<std::string>& words;
  int64_t i;
  size_t at = 1;

  bool empty() const { return at == words.size(); }
  const std::string& peek() const { return words[at]; }
  const std::string& take(const char* what) {
    if (empty()) throw ScriptError(std::string("here is missing: ") + what);
    return words[at++];
  }
};

[[noreturn]] inline void unknown(const std::string& word, const std::string& valid) {
  throw ScriptError("\"" + word + "\" means nothing here; " + valid);
}

inline uint64_t natural(const std::string& text, int64_t i) {
  const int64_t value = number(text, i);
  if (value < 0) throw ScriptError(text + " is negative");
  return static_cast<uint64_t>(value);
}

// "key=value" of `word`; false if it has another key.
inline bool keyed(const std::string& word, std::string_view key, std::string& value) {
  if (!word.starts_with(std::string(key) + "=")) return false;
  value = word.substr(key.size() + 1);
  return true;
}

template <class T>
bool keyed_number(const std::string& word, std::string_view key, int64_t i, T& to) {
  std::string value;
  if (!keyed(word, key, value)) return false;
  to = static_cast<T>(natural(value, i));
  return true;
}

inline bool keyed_number(const std::string& word, std::string_view key, int64_t i,
                         std::optional<uint64_t>& to) {
  std::string value;
  if (keyed(word, key, value)) return to = natural(value, i), true;
  return false;
}

// "@N": a place in memory.
inline bool place(const std::string& word, int64_t i, uint64_t& to) {
  if (!word.starts_with('@')) return false;
  to = static_cast<uint64_t>(number(word.substr(1), i));
  return true;
}

// What `word` stands for in a table.
template <class T, size_t kSize>
T chosen(const std::string& word, const std::pair<const char*, T> (&table)[kSize],
         const char* known) {
  for (const auto& [text, value] : table)
    if (word == text) return value;
  unknown(word, known);
}

// line_work.cpp: what the end's program posts.
Action post_line(Rest& rest);
Action receive_line(Rest& rest);

}  // namespace weft::script
