// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues: receives for the messages of many queue pairs, of any service, so that a
// server needs buffers for the messages that come and not for all that could. A message takes the
// oldest receive when it begins and completes in the receive queue of its own queue pair; between
// the messages of two queue pairs there is no order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "weft/result.hpp"
#include "weft/wr.hpp"

namespace weft {

namespace verbs {
class Srq;
}

struct SharedReceiveQueueOptions {
  uint32_t max_recv_wr = 128;  // receives waiting
  uint32_t max_recv_sge = 4;
};

class SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  explicit operator bool() const noexcept { return srq_ != nullptr; }

  // Names it in AsyncEvent::shared_queue.
  uint32_t number() const noexcept;

  // Legal at any time. Errors: queue_full, invalid_argument.
  PostStatus post_recv(std::span<const RecvRequest> requests) const noexcept;
  PostStatus post_recv(const RecvRequest& request) const noexcept {
    return post_recv({&request, 1});
  }

  // Asks for one event srq_limit_reached when fewer than `limit` receives wait; ask again for the
  // next. 0: never mind. Error: invalid_argument (more than max_recv_wr).
  Result<void> arm_limit(uint32_t limit) const;

  const std::shared_ptr<verbs::Srq>& impl() const noexcept { return srq_; }

 private:
  friend class ProtectionDomain;
  std::shared_ptr<verbs::Srq> srq_;
};

}  // namespace weft
