// SPDX-License-Identifier: BSD-3-Clause
// fid_ep of type FI_EP_RDM: an SRD queue pair, the messages over it (lib/message), and the requests
// of the program that need no message. A thread makes progress while the program does not.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/adapters/fi/common/info.hpp"
#include "lib/adapters/fi/common/objects.hpp"
#include "lib/adapters/fi/common/reports.hpp"
#include "lib/adapters/fi/rdm/atomics.hpp"
#include "lib/adapters/fi/rdm/av.hpp"
#include "lib/adapters/fi/rdm/limits.hpp"
#include "lib/adapters/fi/rdm/own_messages.hpp"
#include "lib/adapters/fi/rdm/peers.hpp"
#include "lib/adapters/fi/rdm/receive_buffers.hpp"
#include "lib/adapters/fi/rdm/remote_keys.hpp"
#include "lib/adapters/fi/rdm/resolver.hpp"
#include "lib/adapters/fi/rdm/send_queue.hpp"
#include "lib/adapters/fi/rdm/target.hpp"
#include "lib/message/endpoint.hpp"
#include "weft/cq.hpp"
#include "weft/qp.hpp"

namespace weft::fi {

class Rdm final : public fid_ep, public Progress, public message::Io {
 public:
  Rdm(Domain& parent, Info described, void* user_context);
  ~Rdm() override;
  Rdm(const Rdm&) = delete;
  Rdm& operator=(const Rdm&) = delete;

  // FI_ENABLE: creates the queue pair and posts its receives, starts the thread.
  Result<void> enable();
  bool is_enabled() const noexcept { return static_cast<bool>(queue_.qp); }
  Name own_name() const noexcept;

  // Calls of the tables, under the lock. Negative codes.
  ssize_t post_send(const iovec* iov, size_t count, fi_addr_t to, bool tagged, uint64_t tag,
                    uint64_t data, void* context, uint64_t flags) noexcept;
  ssize_t post_receive(const iovec* iov, size_t count, fi_addr_t from, bool tagged, uint64_t tag,
                       uint64_t ignore, void* context, uint64_t flags) noexcept;
  // FI_PEEK, with FI_CLAIM or FI_DISCARD or neither; FI_CLAIM or FI_DISCARD of what was claimed.
  ssize_t peek(fi_addr_t from, uint64_t tag, uint64_t ignore, void* context,
               uint64_t flags) noexcept;
  ssize_t discard(void* context) noexcept;
  ssize_t cancel(void* context) noexcept;
  ssize_t post_rma(Opcode opcode, const iovec* iov, size_t count, fi_addr_t to, uint64_t address,
                   uint64_t key, uint64_t data, void* context, uint64_t flags) noexcept;
  // Sends a request of rdm/atomic.cpp, whose bytes it fills in but for the number.
  ssize_t post_atomic(fi_addr_t to, std::span<const std::byte> request, const iovec* results,
                      size_t result_count, void* context, uint64_t flags,
                      uint64_t completes_as) noexcept;

  // Progress
  void progress() noexcept override;
  void arm() noexcept override;
  int fd() const noexcept override { return cq_.fd(); }

  Domain& domain;
  const Info info;
  Directions bound;
  Av* av = nullptr;
  Eq* eq = nullptr;
  size_t least_multi_receive = 64;  // FI_OPT_MIN_MULTI_RECV

 private:
  // message::Io
  bool send(message::Peer to, std::span<const std::byte> header, std::span<const iovec> payload,
            void* operation) override;
  bool read(message::Peer from, uint64_t address, RKey key, iovec into, void* operation) override;
  Result<message::Exposed> expose(iovec memory) override;
  void complete(const message::Completed& completed) override;

  void drain() noexcept;
  // io.cpp
  size_t progress_locked() noexcept;
  void retry() noexcept;
  void handle(const Completion& completion);
  void on_receive(const Completion& completion);
  void on_remote_write(const Completion& completion);
  void on_message(message::Peer from, std::span<const std::byte> bytes);
  void fail_peer(message::Peer peer, Status status);
  // Nothing: too many peers are not in the address vector.
  std::optional<message::Peer> sender_of(const Completion& completion);
  void forget_peers();
  // The peer that a call names, resolved; or a negative code.
  ssize_t find_peer(fi_addr_t number, message::Peer& out);
  // The same for a call that posts something to it: with FI_FENCE all that was posted has
  // completed.
  ssize_t find_target(fi_addr_t number, uint64_t flags, message::Peer& out);
  // The same for a receive: `out` stays as it is where the receive names no peer.
  ssize_t find_source(fi_addr_t number, message::Peer& out);
  void run() noexcept;
  // rma_requests.cpp
  PostStatus submit(const Request& request) noexcept;
  bool wait_for_key(Request& request);
  void end_question(message::Peer from, uint64_t number, Status status,
                    const RemoteKeys::Key& meaning);
  void on_key_answer(message::Peer from, std::span<const std::byte> bytes);
  bool send_requests();
  void on_request(Request& request, Status status);
  void finish_request(Request& request, Status status);
  // atomic.cpp
  void on_atomic_answer(message::Peer from, std::span<const std::byte> bytes);
  void finish_atomic(Atomic& asked, Status status);

  mutable std::mutex lock_;
  CompletionQueue cq_;
  SendQueue queue_;
  ReceiveBuffers buffers_;
  Peers peers_;
  std::unordered_map<uint64_t, message::Peer> senders_;  // by number of the device's peer and queue
  OwnMessages own_;
  Target target_;
  Resolver resolver_;
  message::Endpoint messages_;
  message::Pool<Request> requests_;
  message::List<Request, 0> unsent_requests_;  // whose key is known, and that found no room
  RemoteKeys keys_;
  Atomics atomics_;
  std::thread thread_;
  std::atomic<bool> stops_{false};
  std::atomic<uint32_t> polls_{0};
  int wake_ = -1;           // eventfd of the thread
  bool is_asleep_ = false;  // the thread waits for an event, however long it takes
};

inline Rdm& rdm_of(fid_ep* ep) noexcept { return *static_cast<Rdm*>(ep); }
inline Rdm& rdm_of(fid* ep) noexcept { return rdm_of(reinterpret_cast<fid_ep*>(ep)); }

// The tables of rdm/post.cpp, rdm/tagged.cpp, rdm/rma.cpp, rdm/atomic_calls.cpp.
fi_ops_msg& message_ops() noexcept;
fi_ops_tagged& tagged_ops() noexcept;
fi_ops_rma& rma_ops() noexcept;
fi_ops_atomic& atomic_ops() noexcept;

}  // namespace weft::fi
