// SPDX-License-Identifier: BSD-3-Clause
// See log.hpp and weft/log.hpp.
#include "lib/base/log/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "lib/base/log/json_string.hpp"

namespace weft {

std::string_view name(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
    case LogLevel::off:
      return "off";
  }
  return "unknown";
}

namespace base {

std::string_view name(Subsystem subsystem) noexcept {
  switch (subsystem) {
    case Subsystem::api:
      return "api";
    case Subsystem::connect:
      return "connect";
    case Subsystem::roce:
      return "roce";
    case Subsystem::srd:
      return "srd";
    case Subsystem::port:
      return "port";
    case Subsystem::module:
      return "module";
    case Subsystem::collective:
      return "collective";
    case Subsystem::faults:
      return "faults";
    case Subsystem::verbs:
      return "verbs";
  }
  return "unknown";
}

namespace {

constexpr size_t kSubsystems = static_cast<size_t>(Subsystem::verbs) + 1;

struct Levels {
  Levels() { of.fill(LogLevel::warning); }
  std::array<LogLevel, kSubsystems> of;
  bool json = false;
};

template <class E>
std::optional<E> named(std::string_view word, E last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name(static_cast<E>(i)) == word) return static_cast<E>(i);
  return {};
}

template <class E>
std::string names_up_to(E last) {
  std::string all;
  for (int i = 0; i <= static_cast<int>(last); ++i)
    all += (i == 0 ? "" : ", ") + std::string(name(static_cast<E>(i)));
  return all;
}

Result<Levels> parse_levels(std::string_view text) {
  Levels levels;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word == "json") {
      levels.json = true;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string_view value = equals == word.npos ? word : word.substr(equals + 1);
    const std::optional<LogLevel> level = named(value, LogLevel::off);
    if (!level)
      return Error{Code::invalid_argument, "WEFT_LOG: \"" + std::string(word) +
                                               "\": there is no level \"" + std::string(value) +
                                               "\"; there are " + names_up_to(LogLevel::off)};
    if (equals == word.npos) {
      levels.of.fill(*level);
      continue;
    }
    const std::optional<Subsystem> subsystem = named(word.substr(0, equals), Subsystem::verbs);
    if (!subsystem)
      return Error{Code::invalid_argument, "WEFT_LOG: \"" + std::string(word) +
                                               "\": there is no such subsystem; there are " +
                                               names_up_to(Subsystem::verbs)};
    levels.of[static_cast<size_t>(*subsystem)] = *level;
  }
  return levels;
}

// A sink, and the one that it replaced.
struct Sink {
  LogSink take;
  const Sink* before = nullptr;
};

class Log {
 public:
  Log() noexcept {
    set(Levels());
    const char* const given = std::getenv("WEFT_LOG");
    try {
      const Result<Levels> levels = parse_levels(given != nullptr ? given : "");
      if (levels)
        set(*levels);
      else
        write(Subsystem::api, LogLevel::warning, levels.error().message);
    } catch (const std::bad_alloc&) {  // the levels stay as without WEFT_LOG
    }
  }

  bool wants(Subsystem subsystem, LogLevel level) const noexcept {
    return level >= levels_[static_cast<size_t>(subsystem)].load(std::memory_order_relaxed);
  }
  void set(const Levels& levels) noexcept {
    for (size_t i = 0; i < kSubsystems; ++i) levels_[i] = levels.of[i];
    json_ = levels.json;
  }
  void include(Subsystem subsystem, LogLevel level) noexcept {
    std::atomic<LogLevel>& held = levels_[static_cast<size_t>(subsystem)];
    if (held > level) held = level;
  }
  void replace_sink(LogSink take) {
    auto* const sink = new Sink{std::move(take), sink_};
    while (!sink_.compare_exchange_weak(sink->before, sink)) continue;
  }
  // May throw std::bad_alloc.
  void write(Subsystem subsystem, LogLevel level, std::string_view text) const {
    const Sink* const sink = sink_;
    const LogLine line{level, name(subsystem), text};
    if (sink != nullptr && sink->take) return sink->take(line);
    write(line);
  }
  void write(const LogLine& what) const {
    const std::string line = json_ ? as_json(what) : as_text(what);
    // One call, so that lines of several threads and processes do not mix.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }

 private:
  static std::string as_text(const LogLine& what) {
    std::string line = "weft: ";
    if (what.subsystem != name(Subsystem::api)) line += std::string(what.subsystem) + ": ";
    // A text may quote what a peer sent: nothing that a terminal obeys.
    for (const char c : what.text)
      line += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
    return line + "\n";
  }
  static std::string as_json(const LogLine& what) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::string line = "{\"time\":" + std::to_string(now.tv_sec) + "." +
                       std::to_string(1'000'000 + now.tv_nsec / 1000).substr(1) +
                       ",\"pid\":" + std::to_string(::getpid()) + ",\"level\":\"" +
                       std::string(name(what.level)) + "\",\"subsystem\":\"" +
                       std::string(what.subsystem) + "\",\"text\":";
    append_json_string(line, what.text);
    return line + "}\n";
  }

  std::array<std::atomic<LogLevel>, kSubsystems> levels_{};
  std::atomic<bool> json_ = false;
  std::atomic<const Sink*> sink_ = nullptr;
};

// Is never destroyed: destructors of the application's static objects may log.
Log& process_log() noexcept {
  static_assert(std::is_trivially_destructible_v<Log>);
  static Log log;
  return log;
}

}  // namespace

bool logs(Subsystem subsystem, LogLevel level) noexcept {
  return process_log().wants(subsystem, level);
}

void write_line(Subsystem subsystem, LogLevel level, std::string_view text) noexcept {
  try {
    process_log().write(subsystem, level, text);
  } catch (const std::bad_alloc&) {  // the line is lost
  }
}

void write_to_stderr(const LogLine& line) noexcept {
  try {
    process_log().write(line);
  } catch (const std::bad_alloc&) {  // the line is lost
  }
}

void log_refusal(const Error& error) noexcept {
  if (error.code == Code::would_block || error.code == Code::queue_full) return;
  log(Subsystem::api, LogLevel::info,
      [&] { return std::string(weft::name(error.code)) + ": " + error.message; });
}

void log_from(Subsystem subsystem, LogLevel level) noexcept {
  process_log().include(subsystem, level);
}

}  // namespace base

Result<void> set_log_sink(LogSink sink) {
  try {
    base::process_log().replace_sink(std::move(sink));
    return {};
  } catch (const std::bad_alloc&) {
    return Error{Code::no_memory, "out of memory"};
  }
}

Result<void> set_log_levels(std::string_view levels) {
  const Result<base::Levels> parsed = base::parse_levels(levels);
  if (!parsed) return parsed.error();
  base::process_log().set(*parsed);
  return {};
}

}  // namespace weft
