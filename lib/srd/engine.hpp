// SPDX-License-Identifier: BSD-3-Clause
// The SRD engine: a protocol machine beside the RoCE one. It shares the key table, completion
// queues, the frame builder and the ports with it, and no transport state. lib/wire/SRD.md has the
// rules; docs/internals/life-of-an-srd-message.md follows a message through these files.
//
// The engine joins two halves: send/send.hpp (the streams to peers) and receive/receive.hpp (the
// streams from them). They are free functions over values (state/); the engine holds the values, in
// its bases, and adds the packet side of a Machine and the verbs side.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "lib/base/buckets.hpp"
#include "lib/srd/receive/receive.hpp"
#include "lib/transport/verbs_common.hpp"

namespace weft::srd {

class Engine final : public ReceiveContext {
 public:
  Engine(Port& port, const Config& config, base::SecureRandom& random);
  ~Engine() override;

  void receive(std::span<const Frame> frames, Instant now) noexcept override;
  size_t transmit(std::span<TxFrame> frames, Instant now) noexcept override;
  void expire(Instant now) noexcept override;
  void lose_peer(const LostPeer& lost, Instant now) noexcept override;
  bool wants_transmit() const noexcept override {
    return !active.empty() || !acks.queue.empty() || !replies.empty() || !rnr.ready.empty();
  }
  bool has_active() const noexcept override { return !active.empty(); }

  // The verbs side. Pointers stay valid until destroy_qp.
  // Its number is `wanted` if that is free (0 is not), or drawn.
  Result<QueuePair*> create_qp(const QpConfig& config, QpNum wanted = {});
  void destroy_qp(QueuePair* qp) noexcept;
  // Queued acknowledgements and replies leave with the next transmit(). They belong to the device,
  // not to one of its queue pairs. False: there are none.
  bool flush_pending_ack(QueuePair&) noexcept;
  Result<void> modify_qp(QueuePair& qp, const QueuePairAttributes& change);
  PostStatus post_send(QueuePair& qp, std::span<const SendRequest> requests, Instant now) noexcept;
  PostStatus post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept;

  // What the endpoint at `address` needs to send to us without a hello, as long as it is fresh.
  Credentials issue(const Gid& address, uint32_t qpn_prefix, Instant now) noexcept;
  // What it told us. False: there is no memory for one more peer.
  bool accept(const Gid& address, uint32_t qpn_prefix, const Credentials& its,
              Instant now) noexcept;

  // A part of all queue pairs: see base::visit_buckets().
  template <class Visit>
  size_t visit_qps(size_t bucket, size_t count, Visit visit) const {
    return base::visit_buckets(qps_, bucket, count, [&](const auto& e) { visit(*e.second); });
  }
  // To one address of a peer, from all of ours.
  uint32_t path_count() const noexcept { return frame_paths.count(); }
  // What is known of the paths to the endpoint that has queue pair `number`; empty if nothing is.
  std::vector<PathReport> path_reports(const Gid& address, QpNum number);
  size_t peer_count() const noexcept { return peers.size(); }
  // The peer of Completion::source_peer, less first_peer(); null if there is none.
  const Peer* peer(uint32_t index) const noexcept { return peers.get(index); }

 private:
  std::unordered_map<uint32_t, std::unique_ptr<QueuePair>> qps_;  // by number
};

}  // namespace weft::srd
