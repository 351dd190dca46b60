// SPDX-License-Identifier: BSD-3-Clause
// What the fault port does to frames, and the keys that say so in a device string:
// "roce+udp:lo,fault.loss=0.01,fault.dup=0.005,fault.seed=7". A probability is that of one frame.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::middleware {

enum class FaultDirection : uint8_t { none = 0, transmit = 1, receive = 2, both = 3 };

struct FaultOptions {
  // Probabilities in parts per million.
  uint32_t loss = 0;
  uint32_t burst = 0;     // that a burst of losses begins
  uint32_t ack_loss = 0;  // loss of responses: ACK, NAK, READ and atomic responses
  uint32_t dup = 0;       // sent twice: at once, or the second after reorder_time
  uint32_t reorder = 0;   // held back for reorder_time while others overtake
  uint32_t corrupt = 0;   // one bit of the headers, of the payload or of the ICRC
  uint32_t truncate = 0;  // the end cut off
  uint32_t pad = 0;       // up to 64 random bytes behind the end
  uint32_t merge = 0;     // glued to the frame behind it
  uint32_t ecn = 0;       // marked Congestion Experienced

  uint32_t burst_frames = 8;  // mean length of a burst
  Duration reorder_time = Duration::from_us(20);
  Duration delay;                                   // of every frame, order kept
  Duration jitter;                                  // up to this more, order kept
  uint32_t rate_mbps = 0;                           // of each direction; 0: unlimited
  FaultDirection blackhole = FaultDirection::none;  // drops everything ...
  Duration flap_up, flap_down;                      // ... or only for flap_down after each flap_up
  FaultDirection direction = FaultDirection::both;  // where all others apply
  uint64_t seed = 1;
};

// Sets one option from its key without "fault." in front. The error says what is wrong, and an
// unknown key lists all.
Result<void> set_fault_option(FaultOptions& options, const std::string& name,
                              const std::string& value);
// Options from keys without their "fault." in front. The error names what is wrong, and all keys.
Result<FaultOptions> parse_fault_options(
    const std::vector<std::pair<std::string, std::string>>& options);

}  // namespace weft::middleware
