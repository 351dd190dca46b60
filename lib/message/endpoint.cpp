// SPDX-License-Identifier: BSD-3-Clause
// See endpoint.hpp: construction, peers, and what comes in.
#include "lib/message/endpoint.hpp"

#include <algorithm>

namespace weft::message {
namespace {

constexpr uint32_t kMostCredits = 1u << 20;  // more than any receiver grants

}  // namespace

bool Pieces::assign(std::span<const iovec> from) noexcept {
  count = length = 0;
  for (const iovec& piece : from) {
    if (piece.iov_len == 0) continue;
    if (count == entries.size()) return false;
    entries[count++] = piece;
    length += piece.iov_len;
  }
  return true;
}

iovec Pieces::part(size_t offset, size_t wanted) const noexcept {
  WEFT_DCHECK(offset < length);
  for (size_t i = 0; i < count; ++i) {
    const iovec& piece = entries[i];
    if (offset < piece.iov_len)
      return {static_cast<char*>(piece.iov_base) + offset,
              std::min(wanted, piece.iov_len - offset)};
    offset -= piece.iov_len;
  }
  return {};
}

Endpoint::Endpoint(Io& io, const Limits& limits) : io_(io), limits_(limits) {}

PeerState& Endpoint::state_of(Peer peer) {
  WEFT_DCHECK(peer != kAnyPeer);
  if (peer >= peers_.size()) peers_.resize(size_t{peer} + 1);
  if (!peers_[peer]) peers_[peer] = std::make_unique<PeerState>();
  return *peers_[peer];
}

void Endpoint::on_message(Peer from, std::span<const std::byte> bytes) try {
  const auto header = read_header(bytes);
  if (!header) return ++counters_.violations, void();
  PeerState& peer = state_of(from);
  note_message(peer);
  if (header->credits != 0) {
    peer.credits = std::min(peer.credits + header->credits, kMostCredits);
    send_queued(peer);
  }
  switch (header->kind) {
    case Kind::eager:
      return on_eager(from, peer, *header, bytes.subspan(kHeaderSize));
    case Kind::announce:
      return on_announced(from, peer, *header);
    case Kind::finished:
      return on_finished(peer, from, *header);
    case Kind::credit:
    case Kind::probe:
      return;
  }
} catch (const std::bad_alloc&) {
  ++counters_.out_of_memory;
}

void Endpoint::on_sent(void* operation, Code code) {
  auto* const task = static_cast<Operation*>(operation);
  if (task->task == Task::control)
    return on_control_sent(*static_cast<ControlOperation*>(task), code);
  WEFT_CHECK(task->task == Task::send);
  auto& send = *static_cast<SendOperation*>(task);
  WEFT_CHECK(send.is_sending);
  send.is_sending = false;
  if (send.transfer == 0 || code != Code::ok || send.is_done) finish(send, code);
}

void Endpoint::on_read(void* operation, Code code) {
  auto& transfer = *static_cast<Transfer*>(static_cast<Operation*>(operation));
  WEFT_CHECK(transfer.task == Task::transfer && transfer.reads > 0);
  --transfer.reads;
  transfer.failed = transfer.failed || code != Code::ok;
  if (!transfer.is_linked() && !issue_reads(transfer)) stalled_.push_back(&transfer);
}

void Endpoint::resume() {
  if (!send_controls()) return;
  while (Transfer* transfer = stalled_.front()) {
    List<Transfer, 0>::remove(transfer);
    if (!issue_reads(*transfer)) return stalled_.push_front(transfer);
  }
  const std::vector<Peer> blocked = std::move(blocked_);
  blocked_.clear();
  for (const Peer number : blocked) {
    PeerState& peer = state_of(number);
    WEFT_DCHECK(peer.is_blocked);
    peer.is_blocked = false;
    send_queued(peer);
  }
}

void Endpoint::on_peer_failed(Peer number, Code code) {
  PeerState& peer = state_of(number);
  while (SendOperation* send = peer.unsent.front()) {
    List<SendOperation, 0>::remove(send);
    finish(*send, code);
  }
  WEFT_DCHECK(peer.unsent.empty());
  while (SendOperation* send = peer.announced.front()) {
    finish(*send, code);
  }
  for (Posted *at = posted_.first(), *next; at != nullptr; at = next) {
    next = posted_.after(at);
    if (at->pattern.peer != number) continue;
    auto& receive = static_cast<ReceiveOperation&>(*at);
    receive.unpost(posted_);
    if (receive.transfers == 0)
      complete_receive(receive, {.received = true, .code = code, .envelope = {.peer = number}});
  }
}

bool Endpoint::forget(Peer number) {
  if (number >= peers_.size() || !peers_[number]) return true;
  PeerState& peer = *peers_[number];
  const uint32_t eager_waiting = kFirstCredits + peer.extra - peer.granted - peer.to_return;
  const uint32_t here = peer.operations - peer.lost_count;
  if (here != 0 || eager_waiting != 0 || peer.waiting_announced != 0 || peer.is_blocked ||
      peer.named != 0)
    return false;
  while (ControlOperation* control = peer.lost.front()) {
    List<ControlOperation, 0>::remove(control);
    give(controls_, *control);
  }
  WEFT_CHECK(peer.operations == 0 && extra_granted_ >= peer.extra);
  extra_granted_ -= peer.extra;
  peers_[number].reset();
  return true;
}

Instant Endpoint::on_time(Instant now) {
  now_ = now;
  if (announced_.empty() && posted_.named() == 0) return Instant::never();
  for (const auto& [transfer, send] : announced_) probe(send->peer);
  if (now < next_named_) return now + limits_.probe_interval;
  next_named_ = now + limits_.probe_interval;
  // Of many that receives name, some in each interval, in turn.
  uint32_t left = posted_.named() != 0 ? limits_.named_probes : 0;
  for (size_t i = 0; i < peers_.size() && left != 0; ++i) {
    named_cursor_ = named_cursor_ + 1 < peers_.size() ? named_cursor_ + 1 : 0;
    const PeerState* const peer = peers_[named_cursor_].get();
    if (peer != nullptr && peer->named != 0 && probe(named_cursor_)) --left;
  }
  return now + limits_.probe_interval;
}

bool Endpoint::probe(Peer number) {
  PeerState& peer = state_of(number);
  if (peer.is_probed || now_ - peer.last_message < limits_.probe_interval) return false;
  peer.last_message = now_;
  return peer.is_probed = post_control(number, {.kind = Kind::probe});
}

}  // namespace weft::message
