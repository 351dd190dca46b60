// SPDX-License-Identifier: BSD-3-Clause
// Asking the peer for the incarnation that our packets must name. Nothing else is sent to it
// before.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr int kMostDoublings = 10;

// As the first retransmission of a stream whose round trip is not known (send_timer.cpp).
Duration until_next_hello(SendContext& ctx, uint8_t hellos) noexcept {
  const int64_t jitter = 256 + static_cast<int64_t>(ctx.random().below(256));
  const Duration after =
      ctx.config.least_rto / 256 * (jitter << std::min<int>(hellos, kMostDoublings));
  WEFT_DCHECK(jitter >= 256 && jitter < 512);
  return std::min(after, std::max(ctx.config.first_rto, ctx.config.least_rto * 2));
}

}  // namespace

void send_hello(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.queues.empty()) return;
  Welcome& welcome = tx.welcome;
  if (welcome.hellos == 0) {
    welcome.hello_at = now;
    tx.recovery.progress_at = now;
  }
  if (now < welcome.hello_at) return ctx.arm(peer, welcome.hello_at);
  if (!ctx.has_room()) return ctx.activate(peer);
  welcome.hello_at = now + until_next_hello(ctx, welcome.hellos);
  const uint64_t stamp = ctx.incarnations.take_stamp(now);
  wire::SrdHello hello;
  hello.stamp = stamp;
  hello.process = ctx.incarnations.process_for(peer.address, peer.qpn_prefix);
  hello.incarnation = ctx.incarnations.issue(peer.address, peer.qpn_prefix, stamp);
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::hello;
  p.path = static_cast<uint8_t>(welcome.hellos % ctx.frame_paths.ports_per_address());
  p.dest = peer.endpoint();
  p.source = ctx.endpoint();
  p.hello = &hello;
  // Asked again each time: another process may have the peer's address now.
  peer.in_memory = ctx.port().reaches_in_memory(peer.address, peer.endpoint());
  const Path& path = ctx.path_to(peer, {}, ctx.frame_paths.source_port(0, p.path), 0);
  std::byte* const at = ctx.builder().start(path, wire::srd_emit_length(p), 0);
  wire::srd_emit(at, p, 0);
  ctx.builder().finish();
  welcome.hellos = static_cast<uint8_t>(std::min(welcome.hellos + 1, 255));
  WEFT_DCHECK(welcome.hellos != 0 && welcome.hello_at > now);
  ctx.arm(peer, welcome.hello_at);
}

}  // namespace weft::srd
