// SPDX-License-Identifier: BSD-3-Clause
// Classifies counters as drop reasons by parts of their names: a process of another version, or a
// kernel driver, has counters that this program does not know.
#pragma once

#include <algorithm>
#include <string_view>

namespace weft::stat {

// Ambiguous words include a neighbour ("forward_refused"): a refused flow rule or an exhausted pool
// drops nothing.
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
