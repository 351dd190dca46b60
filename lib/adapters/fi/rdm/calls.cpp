// SPDX-License-Identifier: BSD-3-Clause
// The calls of the program under the lock of an endpoint: see endpoint.hpp.
#include "lib/adapters/fi/common/calls.hpp"

#include <rdma/fi_errno.h>

#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"

namespace weft::fi {
namespace {

constexpr int64_t kAskAgainMs = 20;

int refused(Code code) noexcept { return code == Code::no_memory ? -FI_EAGAIN : code_of(code); }

}  // namespace

ssize_t Rdm::find_peer(fi_addr_t number, message::Peer& out) {
  if (!queue_.qp) return -FI_EOPBADSTATE;
  RdmPeer* const peer = peers_.find(*av, number, out);
  if (peer == nullptr) return -FI_EINVAL;
  if (peer->is_resolved()) return 0;
  const int64_t now = clock_ms();
  if (peer->asked_ms == 0 || now - peer->asked_ms >= kAskAgainMs) {
    peer->asked_ms = now;
    resolver_.ask(peer->name, peers_.question(out));
  }
  return -FI_EAGAIN;
}

// Where -FI_EAGAIN is the answer, completions make the call possible: nothing is queued here.
ssize_t Rdm::find_target(fi_addr_t number, uint64_t flags, message::Peer& out) {
  if (const ssize_t code = find_peer(number, out)) return code;
  const bool waits = (flags & FI_FENCE) != 0 && peers_[out].outstanding != 0;
  return waits || peers_.outstanding() >= kTransmitSize ? -FI_EAGAIN : 0;
}

ssize_t Rdm::find_source(fi_addr_t number, message::Peer& out) {
  if (!queue_.qp) return -FI_EOPBADSTATE;
  if (number == FI_ADDR_UNSPEC || (info->caps & FI_DIRECTED_RECV) == 0) return 0;
  return find_peer(number, out);
}

ssize_t Rdm::post_send(const iovec* iov, size_t count, fi_addr_t to, bool tagged, uint64_t tag,
                       uint64_t data, void* context, uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    message::Peer peer;
    if (const ssize_t code = find_target(to, flags, peer)) return code;
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) length += iov[i].iov_len;
    if (length > info->ep_attr->max_msg_size) return -FI_EMSGSIZE;
    if ((flags & FI_INJECT) && length > kInject) return -FI_EMSGSIZE;
    peers_.begin(peer);
    const Code code = messages_.send(
        {.to = peer,
         .tagged = tagged,
         .tag = tag,
         .has_data = (flags & FI_REMOTE_CQ_DATA) != 0,
         .data = flags & FI_REMOTE_CQ_DATA ? data : 0,
         .pieces = {iov, count},
         .copies = (flags & FI_INJECT) != 0,
         .until_matched = (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) != 0,
         .context = context,
         .cookie = CompletionKind{.reports = (flags & FI_COMPLETION) != 0}.packed()});
    if (code == Code::ok) return 0;
    peers_.end(peer);
    return refused(code);
  });
}

ssize_t Rdm::post_receive(const iovec* iov, size_t count, fi_addr_t from, bool tagged, uint64_t tag,
                          uint64_t ignore, void* context, uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    message::Pattern pattern{.tagged = tagged, .tag = tag, .ignore = ignore};
    if (const ssize_t code = find_source(from, pattern.peer)) return code;
    const bool many = (flags & FI_MULTI_RECV) != 0 && !tagged;
    const message::ReceiveMessage request{
        .pattern = pattern,
        .pieces = {iov, count},
        .least_room = many ? std::max<size_t>(1, least_multi_receive) : 0,
        .context = context,
        .cookie = CompletionKind{.reports = (flags & FI_COMPLETION) != 0, .many = many}.packed()};
    if (flags & FI_CLAIM) return refused(messages_.receive_claimed(request));
    if (is_asleep_ && pattern.peer != message::kAnyPeer) {
      is_asleep_ = false;
      signal_event(wake_);
    }
    return refused(messages_.receive(request));
  });
}

ssize_t Rdm::peek(fi_addr_t from, uint64_t tag, uint64_t ignore, void* context,
                  uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    message::Pattern pattern{.tagged = true, .tag = tag, .ignore = ignore};
    if (const ssize_t code = find_source(from, pattern.peer)) return code;
    progress_locked();
    CqEntry entry;
    void* const claimer = flags & FI_DISCARD ? &entry : context;
    const auto seen = messages_.peek(pattern, (flags & (FI_CLAIM | FI_DISCARD)) != 0, claimer);
    entry.context = context;
    entry.flags = FI_RECV | FI_TAGGED;
    entry.tag = tag;
    if (seen) {
      entry.flags |= seen->has_data ? FI_REMOTE_CQ_DATA : 0;
      entry.data = seen->data;
      entry.tag = seen->envelope.tag;
      entry.length = seen->length;
      entry.source = peers_.number_of(*av, seen->envelope.peer);
      if (flags & FI_DISCARD) messages_.discard_claimed(claimer);
    } else {
      entry.error = FI_ENOMSG;
    }
    if (bound.receive.cq != nullptr) bound.receive.cq->push(entry);  // no message: no counter
    return 0;
  });
}

ssize_t Rdm::discard(void* context) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    const auto seen = messages_.discard_claimed(context);
    if (!seen) return -FI_EINVAL;
    CqEntry entry;
    entry.context = context;
    entry.flags = FI_RECV | FI_TAGGED;
    entry.tag = seen->envelope.tag;
    if (bound.receive.cq != nullptr) bound.receive.cq->push(entry);
    return 0;
  });
}

ssize_t Rdm::cancel(void* context) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    return messages_.cancel(context) ? 0 : -FI_ENOENT;
  });
}

}  // namespace weft::fi
