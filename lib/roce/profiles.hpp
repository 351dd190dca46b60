// SPDX-License-Identifier: BSD-3-Clause
// Profiles: what kinds of devices do where the specification leaves it open, as far as that can be
// read. Each cell names its source by a mark of docs/wire-habits.md, whose table is this one (a
// test compares them); none is from a device that was seen, but those of rxe. The key `profile=` of
// a device string makes an engine behave like a kind of device: cells without a value take weft's.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lib/roce/state/engine_state.hpp"

namespace weft::roce {

// No source: unknown. A source without a value: `text` says what is known, weft's value is taken.
template <class T>
struct Cell {
  std::optional<T> value{};
  std::string_view source{};
  std::string_view text{};  // in place of the value on the page
};

struct Profile {
  std::string_view name;
  Cell<bool> migrated{};
  Cell<SourcePortRule> source_port{};
  Cell<EcnRule> ecn{};
  Cell<bool> answers_marks{};
  Cell<uint8_t> cnp_dscp{};
  Cell<Duration> cnp_interval{};
  Cell<uint16_t> ack_request_every{};
  Cell<bool> credits{};
  Cell<bool> naks_behind_rnr{};
  Cell<bool> keeps_early{};
  Cell<bool> acks_each_duplicate{};
  Cell<uint8_t> too_long{};
  Cell<RetryTimer> retry_timer{};
  Cell<bool> retries_for_ever{};
  Cell<bool> rnr_in_jiffies{};
  Cell<bool> probes{};
  // Selective repeat with weft. No other device has it, also where it is unknown what it does.
  Cell<bool> selective_repeat{};
};

// weft's, which has every value, is the last one.
std::span<const Profile> profiles() noexcept;
// nullptr: there is none of that name.
const Profile* find_profile(std::string_view name) noexcept;
// Makes an engine of `config` behave like such a device.
void apply(const Profile& profile, EngineConfig& config) noexcept;
inline bool repeats_selectively(const Profile& profile) noexcept {
  return profile.selective_repeat.value.value_or(false);
}

}  // namespace weft::roce
