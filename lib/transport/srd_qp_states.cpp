// SPDX-License-Identifier: BSD-3-Clause
// See srd_qp_states.hpp.
#include "lib/transport/srd_qp_states.hpp"

#include <string>

#include "lib/base/check.hpp"

namespace weft::transport {

namespace {

bool may_follow(QpState from, QpState to) {
  if (to == QpState::reset) return true;
  if (to == QpState::err) return from != QpState::reset;
  if (from == to) return true;
  return (from == QpState::reset && to == QpState::init) ||
         (from == QpState::init && to == QpState::rtr) ||
         (from == QpState::rtr && to == QpState::rts) ||
         (from == QpState::rts && to == QpState::sqd) ||
         (from == QpState::sqd && to == QpState::rts);
}

}  // namespace

Result<void> check_srd_transition(QpState from, const QueuePairAttributes& change,
                                  uint32_t max_mtu) {
  WEFT_DCHECK(max_mtu != 0);
  const QpState to = change.state.value_or(from);
  if (change.current_state && *change.current_state != from)
    return Error{Code::bad_state, "current_state is not the state that the queue pair is in"};
  if (!may_follow(from, to))
    return Error{Code::bad_state,
                 "an SRD queue pair goes RESET, INIT, RTR, RTS; it cannot go from " +
                     std::string(name(from)) + " to " + std::string(name(to))};
  if (change.path_mtu && (*change.path_mtu == 0 || *change.path_mtu > max_mtu))
    return Error{Code::invalid_argument, "path_mtu must be 1.." + std::to_string(max_mtu)};
  if (change.rnr_retry && *change.rnr_retry > 7)
    return Error{Code::invalid_argument, "rnr_retry must be 0..7"};
  if (change.rate_limit)
    return Error{
        Code::not_supported,
        "an SRD queue pair has no rate_limit: it sends as fast as the receiver grants; the "
        "queue pairs of roce have one"};
  return {};
}

}  // namespace weft::transport
