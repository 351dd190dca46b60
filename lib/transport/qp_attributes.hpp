// SPDX-License-Identifier: BSD-3-Clause
// The state machine of queue pairs as a table: legal transitions, the attributes that each requires
// and allows, and the range of each attribute. Pure functions.
#pragma once

#include <cstdint>

#include "weft/qp.hpp"
#include "weft/result.hpp"

namespace weft::transport {

// One bit for each member of QueuePairAttributes except `state`.
enum class Attribute : uint32_t {
  none = 0,
  current_state = 1 << 0,
  pkey_index = 1 << 1,
  port = 1 << 2,
  access = 1 << 3,
  qkey = 1 << 4,
  path = 1 << 5,
  path_mtu = 1 << 6,
  dest_qpn = 1 << 7,
  rq_psn = 1 << 8,
  sq_psn = 1 << 9,
  max_dest_rd_atomic = 1 << 10,
  max_rd_atomic = 1 << 11,
  min_rnr_timer = 1 << 12,
  timeout = 1 << 13,
  retry_count = 1 << 14,
  rnr_retry = 1 << 15,
  sq_drained_event = 1 << 16,
  telemetry = 1 << 17,
  selective_repeat = 1 << 18,
  rate_limit = 1 << 19,
};

// The attributes of a transition.
struct Requirement {
  bool legal = false;
  Attribute required = Attribute::none;
  Attribute optional = Attribute::none;
};
Requirement requirement(QpType type, QpState from, QpState to) noexcept;

// The attributes that are set in `change`.
Attribute attributes_set(const QueuePairAttributes& change) noexcept;

// Limits of the device that attributes are checked against.
struct ModifyLimits {
  uint32_t max_mtu = 4096;
  uint32_t max_rd_atomic = 16;  // for both directions
};

// Says whether `change` may be applied to a queue pair in state `current`; without change.state it
// is a transition to the same state. Errors: bad_state (lists the states that can follow),
// invalid_argument (names the attribute that is missing, not allowed here or out of range).
Result<void> check_modify(QpType type, QpState current, const QueuePairAttributes& change,
                          const ModifyLimits& limits);

}  // namespace weft::transport

namespace weft {
template <>
struct is_flag_set<transport::Attribute> {
  static constexpr bool value = true;
};
}  // namespace weft
