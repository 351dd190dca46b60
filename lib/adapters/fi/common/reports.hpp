// SPDX-License-Identifier: BSD-3-Clause
// Where an endpoint reports what has completed: the completion queues and counters bound to it.
#pragma once

#include <rdma/fi_endpoint.h>

#include <array>

#include "lib/adapters/fi/common/cntr.hpp"
#include "lib/adapters/fi/common/cq.hpp"

namespace weft::fi {

// Those of one direction.
struct Reports {
  Cq* cq = nullptr;
  bool selective = false;  // FI_SELECTIVE_COMPLETION
  uint64_t flags = 0;      // op_flags of the attributes
  Cntr* send_or_receive = nullptr;
  Cntr* read = nullptr;   // of the program; of the receiving direction: of peers (FI_REMOTE_READ)
  Cntr* write = nullptr;  // likewise

  // Flags of a call that has none of its own.
  uint64_t default_flags() const noexcept { return flags | (selective ? 0 : FI_COMPLETION); }
  // Those of a call that names its own.
  uint64_t call_flags(uint64_t own) const noexcept { return own | (selective ? 0 : FI_COMPLETION); }
  std::array<Cntr*, 3> counters() const noexcept { return {send_or_receive, read, write}; }
  // Reports the end of an operation: `entry.flags` say which; errors always.
  void report(const CqEntry& entry, bool reports) const noexcept;
};

struct Directions {
  bool has_remote_events = false;  // FI_RMA_EVENT: READs, WRITEs and atomics of peers are counted
  // fi_ep_bind of a fid_cq or fid_cntr; negative codes.
  int bind(Cq& cq, uint64_t flags) noexcept;
  int bind(Cntr& cntr, uint64_t flags) noexcept;
  // FI_GETOPSFLAG, FI_SETOPSFLAG.
  int control(int command, void* arg) noexcept;
  // Lets queues and counters be notified by, and make progress of, `source`.
  void add(Progress* source);
  // Undoes add() and all bindings.
  void release(Progress* source) noexcept;

  Reports transmit, receive;
};

}  // namespace weft::fi
