// SPDX-License-Identifier: BSD-3-Clause
// Receives of an endpoint: messages that find one, messages that wait for one, and transfers of
// announced messages. See endpoint.hpp.
#include <algorithm>
#include <cstring>

#include "lib/message/endpoint.hpp"

namespace weft::message {
namespace {

void copy_into(const Pieces& pieces, size_t at, std::span<const std::byte> from) noexcept {
  while (!from.empty()) {
    const iovec part = pieces.part(at, from.size());
    std::memcpy(part.iov_base, from.data(), part.iov_len);
    at += part.iov_len;
    from = from.subspan(part.iov_len);
  }
}

void* address_at(const Pieces& pieces, size_t at) noexcept {
  return at < pieces.length ? pieces.part(at, 1).iov_base : nullptr;
}

Peeked peeked_of(const WaitingMessage& message) noexcept {
  return {message.envelope, message.header.has_data, message.header.data, message.length};
}

// Null: no memory, or too many pieces.
ReceiveOperation* make_receive(Pool<ReceiveOperation>& pool,
                               const ReceiveMessage& request) noexcept {
  ReceiveOperation* const receive = pool.take();
  if (receive == nullptr) return nullptr;
  receive->pattern = request.pattern;
  receive->used = 0;
  receive->least_room = request.least_room;
  receive->transfers = 0;
  receive->is_posted = false;
  receive->source = nullptr;
  receive->context = request.context;
  receive->cookie = request.cookie;
  if (receive->pieces.assign(request.pieces)) return receive;
  pool.give(receive);
  return nullptr;
}

// Takes the message that was claimed with the context out of the list; null: none was.
WaitingMessage* unclaim(List<WaitingMessage, 0>& claimed, const void* context) noexcept {
  for (auto* message = claimed.front(); message != nullptr; message = claimed.after(message))
    if (message->claimed_by == context) {
      List<WaitingMessage, 0>::remove(message);
      return message;
    }
  return nullptr;
}

}  // namespace

void ReceiveOperation::post(PostedQueue& queue) noexcept {
  WEFT_DCHECK(!is_posted && (source != nullptr) == (pattern.peer != kAnyPeer));
  is_posted = true;
  queue.insert(this);
  if (source != nullptr) ++source->named;
}

void ReceiveOperation::unpost(PostedQueue& queue) noexcept {
  WEFT_DCHECK(is_posted);
  queue.remove(this);
  is_posted = false;
  if (source == nullptr) return;
  WEFT_CHECK(source->named > 0);
  --source->named;
}

Code Endpoint::receive(const ReceiveMessage& request) try {
  if (request.pieces.size() > kMaxPieces) return Code::invalid_argument;
  PeerState* const source =
      request.pattern.peer != kAnyPeer ? &state_of(request.pattern.peer) : nullptr;
  ReceiveOperation* const receive = make_receive(receives_, request);
  if (receive == nullptr) return Code::no_memory;
  receive->source = source;
  receive->post(posted_);
  // A buffer for many takes all that waits, as far as it has room.
  while (receive->is_posted) {
    auto* const message = static_cast<WaitingMessage*>(waiting_.find(request.pattern));
    if (message == nullptr) break;
    waiting_.remove(message);
    const bool more = receive->least_room != 0;
    take(*receive, *message);
    if (!more) break;  // `receive` may be gone
  }
  return Code::ok;
} catch (const std::bad_alloc&) {
  return Code::no_memory;
}

bool Endpoint::cancel(const void* context) {
  for (Posted* at = posted_.first(); at != nullptr; at = posted_.after(at)) {
    auto& receive = static_cast<ReceiveOperation&>(*at);
    if (receive.context != context) continue;
    receive.unpost(posted_);
    if (receive.transfers == 0)
      complete_receive(receive, {.received = true,
                                 .code = Code::canceled,
                                 .envelope = {.tagged = receive.pattern.tagged,
                                              .peer = receive.pattern.peer,
                                              .tag = receive.pattern.tag}});
    return true;
  }
  return false;
}

std::optional<Peeked> Endpoint::peek(const Pattern& pattern, bool claim, void* context) {
  auto* const message = static_cast<WaitingMessage*>(waiting_.find(pattern));
  if (message == nullptr) return {};
  if (claim) {
    waiting_.remove(message);
    message->claimed_by = context;
    claimed_.push_back(message);
  }
  return peeked_of(*message);
}

Code Endpoint::receive_claimed(const ReceiveMessage& request) {
  if (request.pieces.size() > kMaxPieces) return Code::invalid_argument;
  WaitingMessage* const message = unclaim(claimed_, request.context);
  if (message == nullptr) return Code::not_found;
  ReceiveOperation* const receive = make_receive(receives_, request);
  if (receive == nullptr) return claimed_.push_front(message), Code::no_memory;
  take(*receive, *message);
  return Code::ok;
}

std::optional<Peeked> Endpoint::discard_claimed(const void* context) {
  WaitingMessage* const message = unclaim(claimed_, context);
  if (message == nullptr) return {};
  const Peeked seen = peeked_of(*message);
  const Peer from = message->envelope.peer;
  if (message->header.kind == Kind::announce)
    answer(from, message->header.transfer, false);
  else
    return_credit(from, state_of(from));
  message->bytes.reset();
  messages_.give(message);
  return seen;
}

void Endpoint::on_eager(Peer from, PeerState& peer, const Header& header,
                        std::span<const std::byte> payload) {
  if (peer.granted == 0 || payload.size() > limits_.eager_bytes)
    return ++counters_.violations, void();
  WEFT_DCHECK(header.kind == Kind::eager && peer.granted <= kFirstCredits + peer.extra);
  --peer.granted;
  const Envelope envelope{header.tagged, from, header.tag};
  Posted* const posted = posted_.find(envelope);
  if (posted == nullptr) return keep(envelope, header, payload);
  deliver(static_cast<ReceiveOperation&>(*posted), envelope, header, payload);
  return_credit(from, peer);
}

void Endpoint::on_announced(Peer from, PeerState& peer, const Header& header) {
  if (peer.waiting_announced >= kMaxAnnounced) return ++counters_.violations, void();
  ++peer.waiting_announced;
  const Envelope envelope{header.tagged, from, header.tag};
  Posted* const posted = posted_.find(envelope);
  if (posted == nullptr) return keep(envelope, header, {});
  begin_transfer(static_cast<ReceiveOperation&>(*posted), envelope, header);
}

// The message waits for a receive.
void Endpoint::keep(const Envelope& envelope, const Header& header,
                    std::span<const std::byte> payload) {
  ++counters_.unexpected;
  WaitingMessage* const message = messages_.take();
  if (message != nullptr && !payload.empty())
    message->bytes.reset(new (std::nothrow) std::byte[payload.size()]);
  if (message == nullptr || (!payload.empty() && !message->bytes)) {
    if (message != nullptr) messages_.give(message);
    ++counters_.out_of_memory;
    if (header.kind == Kind::announce) return answer(envelope.peer, header.transfer, true);
    return return_credit(envelope.peer, state_of(envelope.peer));
  }
  if (!payload.empty()) std::memcpy(message->bytes.get(), payload.data(), payload.size());
  message->envelope = envelope;
  message->header = header;
  message->length = header.kind == Kind::announce ? header.length : payload.size();
  waiting_.insert(message);
}

// A message that waited goes into a receive.
void Endpoint::take(ReceiveOperation& receive, WaitingMessage& message) {
  const Envelope envelope = message.envelope;
  if (message.header.kind == Kind::announce) {
    begin_transfer(receive, envelope, message.header);
  } else {
    deliver(receive, envelope, message.header, {message.bytes.get(), message.length});
    return_credit(envelope.peer, state_of(envelope.peer));
  }
  message.bytes.reset();
  messages_.give(&message);
}

// Room for a message of `length`: where it begins. The receive leaves the queue if it is used up.
size_t Endpoint::reserve(ReceiveOperation& receive, size_t length) noexcept {
  WEFT_DCHECK(receive.used <= receive.pieces.length);
  WEFT_DCHECK(receive.least_room != 0 || receive.used == 0);
  const size_t at = receive.used;
  receive.used += std::min(length, receive.pieces.length - at);
  const bool is_full =
      receive.least_room == 0 || receive.pieces.length - receive.used < receive.least_room;
  if (is_full && receive.is_posted) receive.unpost(posted_);
  return at;
}

void Endpoint::deliver(ReceiveOperation& receive, const Envelope& envelope, const Header& header,
                       std::span<const std::byte> payload) {
  const size_t at = reserve(receive, payload.size());
  const size_t length = std::min(payload.size(), receive.pieces.length - at);
  WEFT_DCHECK(at + length == receive.used);
  copy_into(receive.pieces, at, payload.first(length));
  complete_receive(receive, {.received = true,
                             .code = length < payload.size() ? Code::mismatch : Code::ok,
                             .envelope = envelope,
                             .has_data = header.has_data,
                             .data = header.data,
                             .buffer = address_at(receive.pieces, at),
                             .length = length,
                             .beyond = payload.size() - length});
}

// Reports; frees the receive if this was its last message.
void Endpoint::complete_receive(ReceiveOperation& receive, const Completed& completed) {
  Completed reported = completed;
  reported.released = !receive.is_posted && receive.transfers == 0;
  reported.context = receive.context;
  reported.cookie = receive.cookie;
  WEFT_DCHECK(receive.is_posted == receive.Link<1>::is_linked());
  if (reported.released) receives_.give(&receive);
  io_.complete(reported);
}

void Endpoint::begin_transfer(ReceiveOperation& receive, const Envelope& envelope,
                              const Header& header) {
  Transfer* const transfer = transfers_.take();
  if (transfer == nullptr) {
    ++counters_.out_of_memory;
    return answer(envelope.peer, header.transfer, true);
  }
  ++state_of(envelope.peer).operations;
  transfer->peer = envelope.peer;
  transfer->receive = &receive;
  transfer->header = header;
  transfer->at = reserve(receive, header.length);
  transfer->length = std::min<size_t>(header.length, receive.pieces.length - transfer->at);
  transfer->begun = 0;
  transfer->reads = 0;
  transfer->failed = false;
  ++receive.transfers;
  if (!issue_reads(*transfer)) stalled_.push_back(transfer);
}

// Begins READs as long as there is room; after the last one has ended the transfer is finished and
// freed. False: no room.
bool Endpoint::issue_reads(Transfer& transfer) {
  while (transfer.begun < transfer.length && !transfer.failed) {
    size_t offset = transfer.begun;  // in the piece of the peer
    const RemotePiece* piece = transfer.header.pieces.data();
    for (; offset >= piece->length; ++piece) offset -= piece->length;
    WEFT_DCHECK(piece < transfer.header.pieces.data() + transfer.header.piece_count);
    const size_t most = std::min<size_t>(transfer.length - transfer.begun, piece->length - offset);
    const iovec into =
        transfer.receive->pieces.part(transfer.at + transfer.begun, std::min(most, kMostPerRead));
    ++transfer.reads;
    if (!io_.read(transfer.peer, piece->address + offset, piece->key, into,
                  static_cast<Operation*>(&transfer))) {
      --transfer.reads;
      return false;
    }
    transfer.begun += into.iov_len;
  }
  if (transfer.reads == 0) finish_transfer(transfer);
  return true;
}

void Endpoint::finish_transfer(Transfer& transfer) {
  ReceiveOperation& receive = *transfer.receive;
  const Header& header = transfer.header;
  WEFT_DCHECK(transfer.reads == 0 && receive.transfers > 0 && !transfer.is_linked());
  WEFT_DCHECK(transfer.failed || transfer.begun == transfer.length);
  --receive.transfers;
  answer(transfer.peer, header.transfer, transfer.failed);
  const size_t beyond = header.length - transfer.length;
  const Completed completed{.received = true,
                            .code = transfer.failed ? Code::io_error
                                    : beyond != 0   ? Code::mismatch
                                                    : Code::ok,
                            .envelope = {header.tagged, transfer.peer, header.tag},
                            .has_data = header.has_data,
                            .data = header.data,
                            .buffer = address_at(receive.pieces, transfer.at),
                            .length = transfer.length,
                            .beyond = beyond};
  give(transfers_, transfer);
  complete_receive(receive, completed);
}

void Endpoint::answer(Peer to, uint32_t transfer, bool failed) {
  PeerState& peer = state_of(to);
  WEFT_CHECK(peer.waiting_announced > 0);
  --peer.waiting_announced;
  post_control(to, {.kind = Kind::finished, .failed = failed, .transfer = transfer});
}

}  // namespace weft::message
