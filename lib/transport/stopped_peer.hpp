// SPDX-License-Identifier: BSD-3-Clause
// Tells a peer that is stopped (SIGSTOP, a debugger, no processor) from a dead one, where the port
// can say how far the peer has read (Port::unread()). It is asked each time that an engine would
// give the peer up.
#pragma once

#include <cstdint>
#include <optional>

namespace weft::transport {

class StoppedPeer {
 public:
  enum class Verdict : uint8_t {
    dead,     // or it reads, and does not answer
    stopped,  // it has read nothing since the last look: look again soon
    went_on,  // it reads again: what it is given to answer in begins anew, once
  };
  // `una`: the oldest number that is not acknowledged; after another one everything begins anew.
  Verdict look(uint64_t una, std::optional<uint64_t> place) noexcept {
    if (!place) return Verdict::dead;
    const uint32_t here = *place & kMask, number = una & kMask;
    if (!known_ || una_ != number) {
      *this = {};
      una_ = number & kMask;
      place_ = here & kMask;
      known_ = true;
      return Verdict::stopped;
    }
    if (went_on_) return Verdict::dead;
    if (place_ == here) return Verdict::stopped;
    went_on_ = true;
    return Verdict::went_on;
  }

 private:
  // Small, as every queue pair has one: the low bits of numbers. Where they are equal by chance a
  // peer is given up one look later.
  static constexpr uint32_t kMask = (1u << 15) - 1;
  uint32_t una_ : 15 = 0;
  uint32_t place_ : 15 = 0;
  uint32_t known_ : 1 = 0;
  uint32_t went_on_ : 1 = 0;
};
static_assert(sizeof(StoppedPeer) == 4);

}  // namespace weft::transport
