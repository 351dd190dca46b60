// SPDX-License-Identifier: BSD-3-Clause
// fid_ep of type FI_EP_MSG: an RC queue pair, the completion queues and counters bound to it, and
// its connection. Also the shared receive context.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/adapters/fi/common/eq.hpp"
#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"
#include "lib/adapters/fi/common/reports.hpp"
#include "lib/adapters/fi/msg/limits.hpp"
#include "lib/adapters/fi/msg/operations.hpp"
#include "weft/cm.hpp"
#include "weft/qp.hpp"

namespace weft::fi {

class MsgQueue;
class Connections;

// A number that no other endpoint or shared context of this process had lately.
uint32_t next_number() noexcept;

// A shared receive context (fi_srx_context). It completes in the receive queues of its endpoints.
struct SharedReceive final : fid_ep {
  SharedReceive(Domain& parent, void* user_context) noexcept;
  Domain& domain;
  const uint32_t number = next_number();
  Operations receives;
  SharedReceiveQueue queue;
  std::atomic<int> users{0};
};

struct Ep final : fid_ep {
  Ep(Domain& parent, Info described, void* user_context) noexcept;
  ~Ep();
  Ep(const Ep&) = delete;
  Ep& operator=(const Ep&) = delete;

  // FI_ENABLE: creates the queue pair, in INIT. After an error it is as before.
  Result<void> enable();
  // Waits until what was sent is at the peer, as long as it answers, half a second at most. An
  // injected message has completed for the program before that; it may close its endpoint then.
  void drain() noexcept;
  // A completion of this endpoint's queue pair.
  void complete(const Completion& completion) noexcept;

  Domain& domain;
  const Info info;
  const uint32_t number = next_number();
  Directions bound;
  std::shared_ptr<MsgQueue> sends_to, receives_from;  // those of the bound queues, or its own
  SharedReceive* shared = nullptr;
  Eq* eq = nullptr;
  Operations sends, receives;
  QueuePair qp;
  CmId id;                                     // of the connection
  std::vector<std::byte> connection_data;      // of fi_connect, until it is sent
  bool is_connected = false, is_shut = false;  // FI_CONNECTED, FI_SHUTDOWN were reported

 private:
  Result<void> create_queue_pair();
  void stop_shared_receives() noexcept;
  void leave_queues() noexcept;
};

// The tables of msg/post.cpp, msg/rma.cpp and msg/connect.cpp.
fi_ops_msg& message_ops() noexcept;
fi_ops_msg& shared_receive_ops() noexcept;
fi_ops_rma& rma_ops() noexcept;
fi_ops_cm& endpoint_cm_ops() noexcept;

inline Ep& endpoint_of(fid_ep* ep) noexcept { return *static_cast<Ep*>(ep); }
inline Ep& endpoint_of(fid* ep) noexcept { return endpoint_of(reinterpret_cast<fid_ep*>(ep)); }

}  // namespace weft::fi
