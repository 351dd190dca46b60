// SPDX-License-Identifier: BSD-3-Clause
// Connects the two sides of a measurement: connect() and Listener over TCP or, with -R, the RDMA
// connection manager. Both sides make their connections in the same order.
#pragma once

#include <memory>

#include "bench/perftest/options.hpp"
#include "weft/weft.hpp"

namespace weft::bench {

class Meeting {
 public:
  static Result<std::unique_ptr<Meeting>> open(const Options& options, const Device& device);
  virtual ~Meeting() = default;
  // Maximum private data in bytes, in each direction.
  virtual size_t private_data() const noexcept = 0;
  // Errors: also bad_state after SIGINT or SIGTERM.
  virtual Result<Connection> join(const QueuePair& qp, const ConnectOptions& how) = 0;
};

}  // namespace weft::bench
