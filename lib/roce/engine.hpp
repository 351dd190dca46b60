// SPDX-License-Identifier: BSD-3-Clause
// The RoCE engine. It does no I/O: time, randomness and packets are arguments, so the same code
// runs over sockets, shared memory and the simulator. It owns the queue pairs and joins the
// services (rc/, unreliable/) over the state that they share (state/engine_state.hpp). What it has
// in common with other protocols, and what a driver needs to know, is in machine.hpp.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include "lib/base/buckets.hpp"
#include "lib/roce/gsi.hpp"
#include "lib/roce/message/shared_receives.hpp"
#include "lib/roce/state/engine_state.hpp"
#include "lib/roce/state/multicast_groups.hpp"
#include "lib/roce/state/qp_numbers.hpp"
#include "lib/transport/qp_table.hpp"
#include "lib/transport/verbs_common.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

// The XRC domain of a shared receive queue, and where its receives complete; 0: none.
struct XrcBinding {
  uint32_t domain = 0;
  CompletionQueue* cq = nullptr;
};

class Engine final : public EngineState {
 public:
  // `port` is asked for its capabilities, address, QPNs and source ports; the caller moves frames.
  Engine(Port& port, const EngineConfig& config, base::SecureRandom& random);
  ~Engine() override;

  // The packet side. transmit() delays an acknowledgement by one call, to piggy-back it on data.
  void receive(std::span<const Frame> frames, Instant now) noexcept override;
  size_t transmit(std::span<TxFrame> frames, Instant now) noexcept override;
  void expire(Instant now) noexcept override;
  void lose_peer(const LostPeer& lost, Instant now) noexcept override;
  bool wants_transmit() const noexcept override {
    return has_active() || !acks_.empty() || !notices_.empty();
  }
  bool has_active() const noexcept override {
    return !active_.empty() || !transmitted_.empty() || gsi_.wants_transmit();
  }

  // The verbs side. Pointers stay valid until destroy_qp.
  Result<QueuePair*> create_qp(const QpConfig& config);
  // Frames that the caller has not sent may name its path: they must be sent before (lib/driver).
  void destroy_qp(QueuePair* qp) noexcept;
  // A delayed acknowledgement and queued responses of `qp` leave with the next transmit(). False:
  // there are none.
  bool flush_pending_ack(QueuePair& qp) noexcept;
  Result<void> modify_qp(QueuePair& qp, const QueuePairAttributes& change);
  // UD. The port joins a group with its first member and leaves it with the last.
  Result<void> attach_multicast(QueuePair& qp, const Gid& group);
  Result<void> detach_multicast(QueuePair& qp, const Gid& group);
  PostStatus post_send(QueuePair& qp, std::span<const SendRequest> requests, Instant now) noexcept;
  PostStatus post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept;
  // Outlives the queue pairs that were created with it.
  Result<std::unique_ptr<SharedReceives>> create_shared_receives(
      uint32_t domain, const SharedReceiveQueueOptions& options, const XrcBinding& xrc = {});
  // Changes how many receives it holds. Errors: busy, invalid_argument, no_memory.
  Result<void> resize(SharedReceives& srq, uint32_t max_recv_wr);
  // XRC: requests can no longer name `srq`; receives that queue pairs took from it are lost. Call
  // before the end of such a queue.
  void withdraw(SharedReceives& srq) noexcept;
  PostStatus post_recv(SharedReceives& srq, std::span<const RecvRequest> requests) noexcept;

  // Queue pair 1 (GSI); nullptr: none. Call services_changed() after each call to `services` from
  // outside the packet side.
  void attach_services(GeneralServices* services) noexcept { gsi_.attach(services); }
  void services_changed() noexcept;

  // Visits a part of all queue pairs: see base::visit_buckets().
  template <class Visit>
  size_t visit_qps(size_t bucket, size_t count, Visit visit) const {
    return base::visit_buckets(owned_, bucket, count, [&](const auto& e) { visit(*e.second); });
  }

  // Asserts every invariant of the queue pairs, destinations and lists. Builds with dense checks;
  // no effect in others.
  void check_invariants() const noexcept;

 private:
  void receive_one(const Frame& frame, Instant now) noexcept;
  void receive_telemetry(const Frame& frame, Instant now) noexcept;
  void receive_packet(const Frame& frame, const wire::IntBlock* telemetry, Instant now) noexcept;
  void receive_multicast(const wire::Packet& packet, const Frame& frame) noexcept;
  void raise_first_request(QueuePair& qp, Instant now) noexcept;
  size_t fill(std::span<TxFrame> frames, Instant now) noexcept;
  bool serve(QueuePair& qp, Instant now) noexcept;
  void transmit_acks() noexcept;
  void transmit_notices() noexcept;
  Result<void> enter_rtr(QueuePair& qp);
  void set_path(QueuePair& qp);
  Result<void> change_path(QueuePair& qp);
  void set_limit(QueuePair& qp) noexcept;
  void reset_qp(QueuePair& qp) noexcept;

  std::optional<HostQueue> host_queue_;  // created with the first pacer
  QpTable<QueuePair> qps_;
  MulticastGroups groups_;
  Gsi gsi_;
  std::unordered_map<uint32_t, std::unique_ptr<QueuePair>> owned_;
  QpNumbers numbers_;
  Destinations destinations_;
};

}  // namespace weft::roce
