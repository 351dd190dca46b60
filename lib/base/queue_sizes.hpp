// SPDX-License-Identifier: BSD-3-Clause
// Checks the queue sizes of a queue pair, the same for every provider. `Asked` is QueuePairOptions
// or transport::QpConfig, `Limits` those of the device or an engine.
#pragma once

#include <string>

#include "weft/result.hpp"

namespace weft::base {

template <class Asked, class Limits>
Result<void> check_queue_sizes(const Asked& a, const Limits& limits) {
  if (a.max_send_wr == 0 || a.max_send_wr > limits.max_qp_wr || a.max_recv_wr > limits.max_qp_wr)
    return Error{
        Code::invalid_argument,
        "max_send_wr must be 1.." + std::to_string(limits.max_qp_wr) + " and max_recv_wr no more"};
  if (a.max_send_sge > limits.max_sge || a.max_recv_sge > limits.max_sge)
    return Error{Code::invalid_argument,
                 "at most " + std::to_string(limits.max_sge) + " scatter/gather entries"};
  if (a.max_inline > limits.max_inline)
    return Error{Code::invalid_argument,
                 "at most " + std::to_string(limits.max_inline) + " bytes inline"};
  return {};
}

}  // namespace weft::base
