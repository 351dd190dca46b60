// SPDX-License-Identifier: BSD-3-Clause
// How the two sides of a measurement find each other: connect() and Listener over TCP, or, with -R,
// the RDMA connection manager. One connection after the other, in the same order on both sides.
#pragma once

#include <memory>

#include "bench/perftest/options.hpp"
#include "weft/weft.hpp"

namespace weft::bench {

class Meeting {
 public:
  static Result<std::unique_ptr<Meeting>> open(const Options& options, const Device& device);
  virtual ~Meeting() = default;
  // Bytes of private data that both directions carry.
  virtual size_t private_data() const noexcept = 0;
  // Ctrl-C ends it with bad_state.
  virtual Result<Connection> join(const QueuePair& qp, const ConnectOptions& how) = 0;
};

}  // namespace weft::bench
