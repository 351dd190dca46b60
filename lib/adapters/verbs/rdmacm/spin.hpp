// SPDX-License-Identifier: BSD-3-Clause
// Polling before a sleep, for calls on rsockets that block: what comes at once is there before a
// thread that sleeps would run again.
#pragma once

#include <chrono>

namespace weft::rdmacm {

// What a sleep and its wake-up take on an idle machine.
inline constexpr std::chrono::microseconds kSpin{30};

// Calls `poll` until it returns true or the time is over.
template <class Poll>
bool spin(Poll poll) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    if (poll()) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace weft::rdmacm
