// SPDX-License-Identifier: BSD-3-Clause
// The keys are a table: name, form of a value, and its destination.
#include "providers/port/middleware/fault_options.hpp"

#include <charconv>
#include <string_view>
#include <variant>

namespace weft::middleware {
namespace {

using Probability = uint32_t FaultOptions::*;
using Time = Duration FaultOptions::*;
using Where = FaultDirection FaultOptions::*;
struct Frames {
  uint32_t FaultOptions::*field;
};
struct Rate {
  uint32_t FaultOptions::*field;
};
struct Seed {
  uint64_t FaultOptions::*field;
};

struct Key {
  std::string_view name;
  std::variant<Probability, Time, Where, Frames, Rate, Seed> target;
};

const Key kKeys[] = {
    {"loss", &FaultOptions::loss},
    {"burst", &FaultOptions::burst},
    {"burst_frames", Frames{&FaultOptions::burst_frames}},
    {"ack_loss", &FaultOptions::ack_loss},
    {"dup", &FaultOptions::dup},
    {"reorder", &FaultOptions::reorder},
    {"reorder_us", &FaultOptions::reorder_time},
    {"corrupt", &FaultOptions::corrupt},
    {"truncate", &FaultOptions::truncate},
    {"pad", &FaultOptions::pad},
    {"merge", &FaultOptions::merge},
    {"ecn", &FaultOptions::ecn},
    {"delay_us", &FaultOptions::delay},
    {"jitter_us", &FaultOptions::jitter},
    {"rate_mbps", Rate{&FaultOptions::rate_mbps}},
    {"blackhole", &FaultOptions::blackhole},
    {"flap_up_us", &FaultOptions::flap_up},
    {"flap_down_us", &FaultOptions::flap_down},
    {"direction", &FaultOptions::direction},
    {"seed", Seed{&FaultOptions::seed}},
};

template <class T>
bool parse_number(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end && !text.empty();
}

// Sets one field; says what a value must be if this is none, else nullptr.
struct Assign {
  FaultOptions& options;
  std::string_view text;

  const char* operator()(Probability field) const {
    double value = 0;
    if (!parse_number(text, value) || !(value >= 0 && value <= 1))
      return "a probability from 0 to 1";
    options.*field = static_cast<uint32_t>(value * 1e6 + 0.5);
    return nullptr;
  }
  const char* operator()(Time field) const {
    double value = 0;
    if (!parse_number(text, value) || !(value >= 0 && value <= 1e9))
      return "microseconds, 0 to 10^9";
    options.*field = Duration::from_ps(static_cast<int64_t>(value * 1e6 + 0.5));
    return nullptr;
  }
  const char* operator()(Where field) const {
    constexpr std::string_view kNames[] = {"none", "tx", "rx", "both"};
    for (uint8_t i = 0; i < 4; ++i)
      if (text == kNames[i]) return options.*field = static_cast<FaultDirection>(i), nullptr;
    return "none, tx, rx or both";
  }
  const char* operator()(Frames key) const {
    uint32_t value = 0;
    if (!parse_number(text, value) || value == 0 || value > 1'000'000)
      return "a number of frames, 1 to 10^6";
    options.*key.field = value;
    return nullptr;
  }
  const char* operator()(Rate key) const {
    uint32_t value = 0;
    if (!parse_number(text, value) || value > 1'000'000)
      return "megabits per second, 1 to 10^6, or 0: unlimited";
    options.*key.field = value;
    return nullptr;
  }
  const char* operator()(Seed key) const {
    uint64_t value = 0;
    if (!parse_number(text, value)) return "a number below 2^64";
    options.*key.field = value;
    return nullptr;
  }
};

Error unknown_key(const std::string& name) {
  std::string valid;
  for (const Key& key : kKeys)
    valid += (valid.empty() ? "fault." : ", fault.") + std::string(key.name);
  return {Code::invalid_argument,
          "there is no key fault." + name + "; valid are " + valid + ", fault.timeline"};
}

}  // namespace

Result<void> set_fault_option(FaultOptions& options, const std::string& name,
                              const std::string& value) {
  const Key* found = nullptr;
  for (const Key& key : kKeys)
    if (key.name == name) found = &key;
  if (found == nullptr) return unknown_key(name);
  if (const char* wanted = std::visit(Assign{options, value}, found->target))
    return Error{Code::invalid_argument, "fault." + name + "=" + value + ": give " + wanted};
  return {};
}

Result<FaultOptions> parse_fault_options(
    const std::vector<std::pair<std::string, std::string>>& options) {
  FaultOptions result;
  for (const auto& [name, value] : options)
    if (const Result<void> ok = set_fault_option(result, name, value); !ok) return ok.error();
  return result;
}

}  // namespace weft::middleware
