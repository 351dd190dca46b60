// SPDX-License-Identifier: BSD-3-Clause
// Parses tokens (text.hpp).
#include "tools/script/text.hpp"

#include <cctype>
#include <charconv>
#include <cstdlib>

namespace weft::script {

namespace {

[[noreturn]] void script_error(std::string_view what, std::string_view expected) {
  throw ScriptError("\"" + std::string(what) + "\" is no " + std::string(expected));
}

constexpr std::string_view kNumber = "number: write 12, 0x1f, 4K, i or a sum or product of these";

int64_t factor(std::string_view text, int64_t i) {
  if (text == "i") {
    if (i < 0) throw ScriptError("\"i\" is defined only within repeat");
    return i;
  }
  int64_t scale = 1;
  if (text.ends_with("K")) scale = 1024;
  if (text.ends_with("M")) scale = 1024 * 1024;
  if (scale > 1) text.remove_suffix(1);
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    script_error(text, kNumber);
  return static_cast<int64_t>(value) * scale;
}

int64_t product(std::string_view text, int64_t i) {
  int64_t value = 1;
  for (;;) {
    const size_t star = text.find('*');
    value *= factor(text.substr(0, star), i);
    if (star == std::string_view::npos) return value;
    text.remove_prefix(star + 1);
  }
}

Bytes quoted(std::string_view text) {
  if (text.size() < 2 || !text.ends_with('"'))
    script_error(text, "text: it lacks its closing quote");
  Bytes bytes;
  for (const char c : text.substr(1, text.size() - 2)) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (size_t at = 0; at < text.size(); at += 2) {
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + at, text.data() + std::min(at + 2, text.size()), value, 16);
    if (error != std::errc() || end != text.data() + at + 2)
      script_error(text, "pairs of hex digits");
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

// "7[0..1024]"
Bytes from_pattern(std::string_view text, int64_t i) {
  const size_t open = text.find('['), dots = text.find("..");
  if (open == std::string_view::npos || dots == std::string_view::npos || !text.ends_with(']'))
    script_error(text, "piece of a pattern: write p1[0..1024]");
  const int64_t seed = number(text.substr(0, open), i);
  const int64_t from = number(text.substr(open + 1, dots - open - 1), i);
  const int64_t to = number(text.substr(dots + 2, text.size() - dots - 3), i);
  if (from < 0 || to < from || to > 1 << 28)
    script_error(text, "piece of a pattern: it ends before it begins, or is too long");
  Bytes bytes;
  for (int64_t place = from; place < to; ++place)
    bytes.push_back(pattern(static_cast<uint64_t>(seed), static_cast<uint64_t>(place)));
  return bytes;
}

Bytes piece(std::string_view text, int64_t i) {
  if (text.starts_with('"')) return quoted(text);
  if (text.starts_with("hex:")) return from_hex(text.substr(4));
  if (text.starts_with("zero:")) {
    const int64_t size = number(text.substr(5), i);
    if (size < 0 || size > 1 << 28) script_error(text, "count of zeros");
    return Bytes(static_cast<size_t>(size));
  }
  if (text.starts_with('p')) return from_pattern(text.substr(1), i);
  script_error(text, "data: write \"text\", hex:00ff, zero:100 or p1[0..1024]");
}

// The end of the first item of `text`.
size_t piece_end(std::string_view text) {
  bool inside = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') inside = !inside;
    if (text[at] == ',' && !inside) return at;
  }
  return text.size();
}

}  // namespace

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  for (const char c : line) {
    if (c == '"') inside = !inside;
    if (c == '#' && !inside) break;
    if (std::isspace(static_cast<unsigned char>(c)) && !inside) {
      if (!word.empty()) words.push_back(std::exchange(word, {}));
      continue;
    }
    word += c;
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

int64_t number(std::string_view text, int64_t i) {
  int64_t sum = 0, sign = 1;
  std::string_view rest = text;
  if (rest.starts_with('-') || rest.starts_with('+')) {
    sign = rest.starts_with('-') ? -1 : 1;
    rest.remove_prefix(1);
  }
  for (;;) {
    const size_t at = rest.find_first_of("+-");
    sum += sign * product(rest.substr(0, at), i);
    if (at == std::string_view::npos) return sum;
    sign = rest[at] == '-' ? -1 : 1;
    rest.remove_prefix(at + 1);
  }
}

Duration duration(std::string_view text) {
  const std::string copy(text);
  char* unit = nullptr;
  const double value = std::strtod(copy.c_str(), &unit);
  const std::string_view name(unit);
  double ps = 0;
  if (name == "ns") ps = 1e3;
  if (name == "us") ps = 1e6;
  if (name == "ms") ps = 1e9;
  if (name == "s") ps = 1e12;
  if (ps == 0 || unit == copy.c_str() || !(value >= 0) || value * ps > 1e17)
    script_error(text, "time: write 10us, 1.5ms or 2s");
  return Duration::from_ps(static_cast<int64_t>(value * ps + 0.5));
}

std::byte pattern(uint64_t seed, uint64_t place) {
  uint64_t x = (seed << 40) + place / 8 + 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return static_cast<std::byte>((x ^ (x >> 31)) >> (place % 8 * 8));
}

bool is_bytes(std::string_view word) {
  return word.starts_with('"') || word.starts_with("hex:") || word.starts_with("zero:") ||
         (word.starts_with('p') && word.find('[') != std::string_view::npos);
}

Bytes bytes_of(std::string_view text, int64_t i) {
  Bytes all;
  for (std::string_view rest = text;;) {
    const size_t end = piece_end(rest);
    const Bytes part = piece(rest.substr(0, end), i);
    all.insert(all.end(), part.begin(), part.end());
    if (end == rest.size()) return all;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace weft::script
