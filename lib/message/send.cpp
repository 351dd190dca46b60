// SPDX-License-Identifier: BSD-3-Clause
// Sends of an endpoint: eager ones, announced ones, and those that wait for room. See endpoint.hpp.
#include <cstring>
#include <utility>

#include "lib/message/endpoint.hpp"

namespace weft::message {
namespace {

Header header_of(const SendOperation& operation, Kind kind) noexcept {
  const SendMessage& request = operation.request;
  return {.kind = kind,
          .tagged = request.tagged,
          .has_data = request.has_data,
          .transfer = operation.transfer,
          .tag = request.tag,
          .data = request.data,
          .length = operation.pieces.length};
}

// The pieces become one piece of memory of the operation's own.
bool keep_copy(SendOperation& operation) {
  Pieces& pieces = operation.pieces;
  if (pieces.length == 0) return true;
  operation.copy.reset(new (std::nothrow) std::byte[pieces.length]);
  if (!operation.copy) return false;
  std::byte* at = operation.copy.get();
  for (const iovec& piece : pieces.span()) {
    std::memcpy(at, piece.iov_base, piece.iov_len);
    at += piece.iov_len;
  }
  const iovec whole{operation.copy.get(), pieces.length};
  return pieces.assign({&whole, 1});
}

}  // namespace

Code Endpoint::send(const SendMessage& request) try {
  PeerState& peer = state_of(request.to);
  SendOperation* const operation = sends_.take();
  if (operation == nullptr) return Code::no_memory;
  ++peer.operations;
  operation->request = request;
  operation->request.pieces = {};
  operation->peer = request.to;
  operation->transfer = 0;
  operation->is_sending = operation->is_done = false;
  if (!operation->pieces.assign(request.pieces))
    return give(sends_, *operation), Code::invalid_argument;
  const bool sent_inline =
      operation->pieces.length + kHeaderSize <= limits_.inline_bytes && !request.until_matched;
  if (request.copies && !sent_inline && !keep_copy(*operation))
    return give(sends_, *operation), Code::no_memory;
  if (request.copies) ++counters_.copied;
  if (peer.unsent.empty() && start(peer, *operation)) return Code::ok;
  if (request.copies && !operation->copy && !keep_copy(*operation)) {
    --counters_.copied;
    return give(sends_, *operation), Code::no_memory;
  }
  if (!std::exchange(peer.is_blocked, true)) blocked_.push_back(request.to);
  peer.unsent.push_back(operation);
  return Code::ok;
} catch (const std::bad_alloc&) {
  return Code::no_memory;
}

// Sends the message one way or the other, or ends it with an error. False: no room; nothing done.
bool Endpoint::start(PeerState& peer, SendOperation& operation) {
  WEFT_DCHECK(!operation.is_linked() && !operation.is_sending && !operation.is_done);
  const bool eager = !operation.request.until_matched && peer.credits > 0 &&
                     operation.pieces.length <= limits_.eager_bytes;
  return eager ? start_eager(peer, operation) : start_announced(peer, operation);
}

bool Endpoint::start_eager(PeerState& peer, SendOperation& operation) {
  WEFT_DCHECK(peer.credits > 0);
  operation.transfer = 0;  // there was no credit when it was tried before
  Header header = header_of(operation, Kind::eager);
  header.credits = peer.take_credits();
  write_header(header, operation.header.data());
  operation.is_sending = true;
  if (!io_.send(operation.peer, {operation.header.data(), kHeaderSize}, operation.pieces.span(),
                static_cast<Operation*>(&operation))) {
    operation.is_sending = false;
    peer.untake_credits(header.credits);
    return false;
  }
  --peer.credits;
  return true;
}

bool Endpoint::start_announced(PeerState& peer, SendOperation& operation) {
  if (peer.announced_count >= kMaxAnnounced) return false;
  if (operation.request.copies && !operation.copy && !keep_copy(operation)) return false;
  WEFT_DCHECK(!announced_.contains(operation.transfer));
  if (operation.transfer == 0) {
    for (size_t i = 0; i < operation.pieces.count; ++i) {
      auto exposed = io_.expose(operation.pieces.entries[i]);
      if (!exposed) {
        finish(operation, exposed.error().code);
        return true;
      }
      operation.exposed[i] = std::move(*exposed);
    }
    do operation.transfer = next_transfer_++;
    while (operation.transfer == 0 || announced_.contains(operation.transfer));
  }
  Header header = header_of(operation, Kind::announce);
  header.piece_count = static_cast<uint32_t>(operation.pieces.count);
  for (size_t i = 0; i < operation.pieces.count; ++i) {
    const iovec& piece = operation.pieces.entries[i];
    header.pieces[i] = {reinterpret_cast<uintptr_t>(piece.iov_base), piece.iov_len,
                        operation.exposed[i].key};
  }
  try {
    announced_[operation.transfer] = &operation;
  } catch (const std::bad_alloc&) {
    finish(operation, Code::no_memory);
    return true;
  }
  header.credits = peer.take_credits();
  const size_t size = write_header(header, operation.header.data());
  operation.is_sending = true;
  if (!io_.send(operation.peer, {operation.header.data(), size}, {},
                static_cast<Operation*>(&operation))) {
    operation.is_sending = false;
    announced_.erase(operation.transfer);
    peer.untake_credits(header.credits);
    return false;
  }
  if (peer.announced.empty()) peer.last_message = now_;
  peer.announced.push_back(&operation);
  ++peer.announced_count;
  ++counters_.announced;
  return true;
}

// Sends what waits for the peer, in order. Where there is no room, resume() will go on.
void Endpoint::send_queued(PeerState& peer) {
  while (SendOperation* operation = peer.unsent.front()) {
    List<SendOperation, 0>::remove(operation);
    if (start(peer, *operation)) continue;
    peer.unsent.push_front(operation);
    if (!std::exchange(peer.is_blocked, true)) blocked_.push_back(operation->peer);
    return;
  }
}

void Endpoint::on_finished(PeerState& peer, Peer from, const Header& header) {
  const auto at = announced_.find(header.transfer);
  if (at == announced_.end() || at->second->peer != from) return ++counters_.violations, void();
  SendOperation& operation = *at->second;
  finish(operation, header.failed ? Code::io_error : Code::ok);
  send_queued(peer);
}

// Ends the operation, once; frees it unless its SEND has not ended.
void Endpoint::finish(SendOperation& operation, Code code) {
  if (!std::exchange(operation.is_done, true)) {
    if (operation.is_linked()) {  // among the announced ones of its peer
      PeerState& peer = state_of(operation.peer);
      WEFT_DCHECK(operation.transfer != 0 && peer.announced_count > 0);
      List<SendOperation, 0>::remove(&operation);
      announced_.erase(operation.transfer);
      --peer.announced_count;
    }
    for (Exposed& exposed : operation.exposed) exposed = {};
    const SendMessage& request = operation.request;
    if (request.copies) {
      WEFT_CHECK(counters_.copied > 0);
      --counters_.copied;
    }
    io_.complete({.received = false,
                  .code = code,
                  .envelope = {.tagged = request.tagged, .peer = request.to, .tag = request.tag},
                  .has_data = request.has_data,
                  .data = request.data,
                  .length = operation.pieces.length,
                  .context = request.context,
                  .cookie = request.cookie});
  }
  if (operation.is_sending) return;
  WEFT_DCHECK(!operation.is_linked());
  operation.copy.reset();
  give(sends_, operation);
}

}  // namespace weft::message
