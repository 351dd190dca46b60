// SPDX-License-Identifier: BSD-3-Clause
// Services whose listener has closed a moment ago. A program that listens anew for each connection
// (perftest -R) has no listener in between. A request that arrives then is dropped, not refused:
// the peer repeats it, and is refused if no one listens after kBetweenListeners either. The next
// listener may be of another port space (perftest -c UD -R), so ports are compared.
#pragma once

#include <array>
#include <cstdint>

#include "weft/units.hpp"

namespace weft::cm {

// Enough for perftest beside ten other programs. weft repeats a request every 268 ms for 4.3 s.
inline constexpr Duration kBetweenListeners = Duration::from_s(3);

// Remembers the last kMost services; of a program that closes more at once, older ones are refused.
class ClosedServices {
 public:
  void add(uint64_t service, Instant now) noexcept {
    entries_[next_++ % kMost] = {static_cast<uint16_t>(service), now + kBetweenListeners};
  }
  bool contains(uint64_t service, Instant now) const noexcept {
    const auto port = static_cast<uint16_t>(service);
    for (const Entry& entry : entries_)
      if (entry.port == port && now < entry.until) return true;
    return false;
  }

 private:
  static constexpr uint32_t kMost = 64;
  struct Entry {
    uint16_t port = 0;
    Instant until;
  };
  std::array<Entry, kMost> entries_{};
  uint32_t next_ = 0;
};

}  // namespace weft::cm
