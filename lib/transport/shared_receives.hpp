// SPDX-License-Identifier: BSD-3-Clause
// A shared receive queue: receives that many queue pairs take from. For XRC it also stands for the
// queue pair's own receives, completion queue and protection domain.
#pragma once

#include "lib/transport/completion_queue.hpp"
#include "lib/transport/work_queue.hpp"

namespace weft::transport {

struct SharedReceives {
  uint32_t number = 0;
  uint32_t domain = 0;
  uint32_t limit = 0;             // armed: tell when fewer are left
  uint32_t xrc_domain = 0;        // 0: none
  CompletionQueue* cq = nullptr;  // XRC
  WorkRing<RecvEntry> ring;
};

}  // namespace weft::transport
