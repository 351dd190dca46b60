// SPDX-License-Identifier: BSD-3-Clause
// A shared receive queue: receives that many queue pairs take from. For XRC it also provides the
// completion queue and the protection domain of a request.
#pragma once

#include "lib/transport/completion_queue.hpp"
#include "lib/transport/work_queue.hpp"

namespace weft::transport {

struct SharedReceives {
  uint32_t number = 0;
  uint32_t domain = 0;
  uint32_t limit = 0;             // raise srq_limit_reached when fewer are left; 0: not armed
  uint32_t xrc_domain = 0;        // 0: none
  CompletionQueue* cq = nullptr;  // XRC
  WorkRing<RecvEntry> ring;
};

}  // namespace weft::transport
