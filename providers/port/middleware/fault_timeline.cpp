// SPDX-License-Identifier: BSD-3-Clause
// See fault_timeline.hpp.
#include "providers/port/middleware/fault_timeline.hpp"

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace weft::middleware {
namespace {

struct EventWord {
  std::string_view text;
  FaultEvent event;
};
constexpr EventWord kEvents[] = {
    {"port=down", FaultEvent::port_down},
    {"port=up", FaultEvent::port_up},
    {"gid=gone", FaultEvent::gid_gone},
    {"gid=back", FaultEvent::gid_back},
    {"qp=error", FaultEvent::qp_error},
    {"cq=overrun", FaultEvent::cq_overrun},
    {"device=removed", FaultEvent::device_removed},
};
constexpr std::string_view kHold = "hold_completions_us";

Error wrong(const std::string& why) { return {Code::invalid_argument, why}; }

// Microseconds, from "200ms", "1.5s" or "50us".
std::optional<double> parse_time(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || !(value >= 0 && value <= 1e9)) return {};
  const std::string_view name(unit, static_cast<size_t>(end - unit));
  if (name == "us") return value;
  if (name == "ms") return value * 1e3;
  if (name == "s") return value * 1e6;
  return {};
}

Duration duration_of(double us) { return Duration::from_ns(static_cast<int64_t>(us * 1e3)); }

// "loss=0.1", "port=down" ...
Result<void> add_word(std::string word, FaultStep& step, bool timed) {
  for (const EventWord& known : kEvents)
    if (word == known.text) {
      if (!timed) return wrong(word + " happens once: write the time before it, like 1s");
      return step.events.push_back(known.event), Result<void>{};
    }
  const size_t equals = word.find('=');
  if (equals == std::string::npos)
    return wrong("'" + word + "' is neither a time, like 200ms, nor KEY=VALUE, like loss=0.01");
  std::string name = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  if (name.starts_with("fault.")) name.erase(0, std::strlen("fault."));
  if (name == kHold && timed) {
    const std::optional<double> us = parse_time(value + "us");
    if (!us || *us > 1e7) return wrong(word + ": give microseconds, 0 to 10^7");
    step.held = duration_of(*us);
    return step.events.push_back(FaultEvent::completions_held), Result<void>{};
  }
  if (name == "seed" && timed)
    return wrong("the seed is that of the whole run: leave the time out");
  const Result<void> set = set_fault_option(step.options, name, value);
  if (set) return set;
  std::string valid;
  for (const EventWord& known : kEvents) valid += ", " + std::string(known.text);
  return wrong(set.error().message + "; behind a time also " + std::string(kHold) + valid);
}

// "loss = 0.1" becomes "loss=0.1", and a comment is left out.
std::string normalized(const std::string& line) {
  std::string result;
  for (const char c : line.substr(0, line.find('#'))) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (blank && result.ends_with('=')) continue;
    while (c == '=' && (result.ends_with(' '))) result.pop_back();
    result += blank ? ' ' : c;
  }
  return result;
}

// Adds what a line says to `timeline`, or to `options` if it has no time.
Result<void> add_line(std::istringstream& words, FaultOptions& options, FaultTimeline& timeline) {
  std::string word;
  if (!(words >> word)) return {};
  FaultStep step;
  step.options = timeline.empty() ? options : timeline.back().options;
  const bool timed = std::isdigit(static_cast<unsigned char>(word[0])) != 0;
  if (timed) {
    const std::optional<double> us = parse_time(word);
    if (!us) return wrong("'" + word + "' is no time: write 50us, 200ms or 1.5s");
    step.at = duration_of(*us);
    if (!timeline.empty() && step.at < timeline.back().at)
      return wrong(word + " is before the line above: times must not decrease");
    word.clear();
    if (!(words >> word)) return wrong("nothing follows the time");
  } else if (!timeline.empty()) {
    return wrong("lines without a time come first: they hold from the start");
  }
  do {
    if (const Result<void> ok = add_word(word, step, timed); !ok) return ok;
    step.text += (step.text.empty() ? "" : " ") + word;
  } while (words >> word);
  if (timed)
    timeline.push_back(std::move(step));
  else
    options = step.options;
  return {};
}

}  // namespace

Result<FaultTimeline> read_fault_timeline(const std::string& path, FaultOptions& options) {
  std::ifstream file(path);
  if (!file) return Error{Code::not_found, path + ": " + std::strerror(errno)};
  FaultTimeline timeline;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(normalized(line));
    if (const Result<void> ok = add_line(words, options, timeline); !ok)
      return wrong(path + ":" + std::to_string(number) + ": " + ok.error().message);
  }
  return timeline;
}

}  // namespace weft::middleware
