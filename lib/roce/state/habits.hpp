// SPDX-License-Identifier: BSD-3-Clause
// What a device does where the specification leaves it open, or where devices break it by habit.
// The defaults are weft's; profiles.hpp has those of other kinds of devices. They are looked at
// when a queue pair is created or connected, and where something rare happens, not for each packet.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lib/wire/headers.hpp"
#include "weft/units.hpp"

namespace weft::roce {

// UDP source port of packets whose address vector has neither one nor a flow label.
enum class SourcePortRule : uint8_t {
  own_number,    // a hash of the own queue pair number
  both_numbers,  // as rdma_get_udp_sport() of Linux: the same in both directions
};

// ECN bits of packets whose address vector has none.
enum class EcnRule : uint8_t {
  controlled,      // ECT(0) under congestion control
  always_ect1,     // ECT(1)
  address_vector,  // none
};

// How long a requester waits for an answer.
enum class RetryTimer : uint8_t {
  exact,        // `timeout`
  jiffies,      // `timeout` in whole jiffies of 4 ms, at least one
  short_first,  // six short ones, then twice `timeout`, which is taken for at least 16
};

inline constexpr Duration kJiffy = Duration::from_us(4000);  // at HZ = 250

struct Habits {
  bool migrated = true;  // MigReq of all packets but CNPs
  SourcePortRule source_port = SourcePortRule::own_number;
  EcnRule ecn = EcnRule::controlled;
  bool answers_marks = true;         // by CNPs
  uint16_t ack_request_every = 16;   // packets of a message, of which one asks; at most 256
  bool naks_behind_rnr = false;      // 0x60 for the next request behind an RNR NAK
  bool keeps_early = true;           // requests behind a gap; false: a NAK at once
  bool acks_each_duplicate = false;  // SENDs and WRITEs; false: once in some microseconds
  uint8_t too_long = wire::kNakInvalidRequest;  // syndrome: a SEND longer than its receive
  RetryTimer retry_timer = RetryTimer::exact;
  bool retries_for_ever = false;  // with retry_cnt 7
  bool rnr_in_jiffies = false;    // the wait after an RNR NAK, in whole ones
  bool probes = true;             // the end of what was sent, before `timeout`

  bool operator==(const Habits&) const = default;
};

// The wait of a requester after `expired` time-outs without progress; zero: none ends it.
//= roce:C-RETRY-46
constexpr Duration retry_delay(RetryTimer timer, uint8_t timeout, uint8_t expired) noexcept {
  if (timeout == 0) return {};
  constexpr std::array<int64_t, 6> kShortMs{9, 17, 34, 67, 101, 201};
  const auto of = [](uint8_t exponent) {
    return Duration::from_ps(4'096'000) * (int64_t{1} << exponent);
  };
  switch (timer) {
    case RetryTimer::jiffies:
      return kJiffy * std::max<int64_t>(1, of(timeout).ps / kJiffy.ps);
    case RetryTimer::short_first:
      if (expired < kShortMs.size()) return Duration::from_us(1000) * kShortMs[expired];
      return of(std::max<uint8_t>(timeout, 16)) * 2;
    case RetryTimer::exact:
      break;
  }
  return of(timeout);
}

// Whether the time-out after `expired` others counts as a retry: the short ones are one together,
// and their last one ends it. //= roce:C-RETRY-47
constexpr bool counts_as_retry(RetryTimer timer, uint8_t expired) noexcept {
  return timer != RetryTimer::short_first || expired == 0 || expired >= 5;
}

}  // namespace weft::roce
