// SPDX-License-Identifier: BSD-3-Clause
// A peer that does not answer: is a process there at all, and does it do anything?
#include "lib/srd/send/send.hpp"
#include "lib/wire/liveness_request.hpp"

namespace weft::srd {

// Not before the peer has answered once: one that has not been started yet is waited for.
void ask_for_peer(SendContext& ctx, const Peer& peer) noexcept {
  if (!ctx.capabilities().asks || peer.in_memory || peer.tx.incarnation() == 0) return;
  const uint64_t nonce = uint64_t{ctx.random().next32()} << 32 | ctx.random().next32();
  Path path;
  path.source = ctx.frame_paths.addresses().front();
  path.destination = peer.address;
  path.destination_port = wire::kSrdUdpPort;
  ctx.port().ask(path, wire::LivenessRequest::of_srd(peer.endpoint(), nonce).bytes());
}

bool is_stopped(SendContext& ctx, Peer& peer, Instant now) noexcept {
  using Verdict = transport::StoppedPeer::Verdict;
  constexpr int64_t kLooks = 8;  // in a dead peer timeout
  if (!ctx.config.waits_for_stopped) return false;
  Sender& tx = peer.tx;
  const Verdict verdict =
      tx.stopped.look(tx.una, ctx.port().unread(peer.address, peer.endpoint(), peer.in_memory));
  const Duration timeout = ctx.config.dead_peer_timeout;
  if (verdict == Verdict::stopped)
    tx.recovery.progress_at = now - Duration{timeout.ps - timeout.ps / kLooks};
  if (verdict == Verdict::went_on) tx.recovery.progress_at = now;
  return verdict != Verdict::dead;
}

}  // namespace weft::srd
