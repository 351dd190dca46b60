// SPDX-License-Identifier: BSD-3-Clause
// What happens to a device at given times after it was opened, read from a file (fault.timeline=,
// weft-run --faults FILE):
//
//   # time  what
//   seed=7 loss=0.001         from the start
//   200ms   loss=0.05 delay_us=50
//   1s      port=down
//   1.5s    port=up loss=0
//
// Keys of FaultOptions hold until they are set again. Times do not decrease.
#pragma once

#include <string>
#include <vector>

#include "providers/port/middleware/fault_options.hpp"

namespace weft::middleware {

// What happens once, to the objects of verbs. All but device_removed leave the device usable.
// It has no stable layout for this.
// clang-format off
#define WEFT_FAULT_EVENTS(X) \
  X(port_down) X(port_up) X(gid_gone) X(gid_back) X(qp_error) X(cq_overrun) X(device_removed) \
  X(completions_held)
// clang-format on

enum class FaultEvent : uint8_t {
#define X(name) name,
  WEFT_FAULT_EVENTS(X)
#undef X
      end_
};
inline constexpr size_t kFaultEventEnd = static_cast<size_t>(FaultEvent::end_);

struct FaultStep {
  Duration at;           // after the device was opened
  FaultOptions options;  // from then on
  std::vector<FaultEvent> events;
  Duration held;     // of completions_held: for how long
  std::string text;  // as written, without the time
};
using FaultTimeline = std::vector<FaultStep>;

// `options`: those of the device string; what the file says of the start is added. Errors:
// not_found, invalid_argument (names the line).
Result<FaultTimeline> read_fault_timeline(const std::string& path, FaultOptions& options);

}  // namespace weft::middleware
