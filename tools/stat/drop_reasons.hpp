// SPDX-License-Identifier: BSD-3-Clause
// Which counters say that something was thrown away, and why. By parts of their names: a process of
// another version, or a driver of the kernel's, has counters that nobody here has heard of.
#pragma once

#include <algorithm>
#include <string_view>

namespace weft::stat {

// Where a word would be too short it has its neighbour with it: a rule for flows may be refused,
// and a full pool makes a sender wait, with nothing lost.
inline constexpr std::string_view kDropWords[] = {
    "drop",        "malformed",       "foreign",      "errors",          "unreadable",
    "rx_corrupt",  "truncated",       "invalid",      "missed",          "stalled",
    "revoked",     "impostors",       "denied",       "strangers",       "unexpected",
    "bad_",        "too_short",       "too_long",     "wrong_",          "icrc_error",
    "unknown",     "unsupported",     "unagreed",     "ghost",           "stale_",
    "after_nak",   "lost_resource",   "message_",     "pull_failed",     "over_credit",
    "incarnation", "out_of_window",   "no_receive",   "no_group",        "no_route",
    "no_peer",     "no_neighbour",    "rx_no_buffer", "no_mbuf",         "no_memory",
    "ring_full",   "link_down",       "events_lost",  "forward_refused", "fault_loss",
    "fault_burst", "fault_blackhole", "ack_loss",     "overflow",
};

constexpr bool is_drop(std::string_view name) noexcept {
  return std::any_of(std::begin(kDropWords), std::end(kDropWords), [name](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

}  // namespace weft::stat
