// SPDX-License-Identifier: BSD-3-Clause
// What goes to the queue pair of an endpoint, and what comes from it: see endpoint.hpp.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"

namespace weft::fi {
namespace {

constexpr size_t kBatch = 32;
constexpr size_t kKnownSenders = 60'000;  // a device has numbers for 65,536 peers

// A peer that is there has a queue pair that takes SENDs.
Code code_for_message(RdmTask task, Status status) noexcept {
  if (status == Status::success) return Code::ok;
  const bool is_gone = status == Status::retry_exceeded || status == Status::remote_aborted ||
                       (status == Status::remote_invalid_request && task != RdmTask::transfer);
  return is_gone ? Code::peer_failed : Code::io_error;
}

Status status_of(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return Status::success;
    case Code::mismatch:
      return Status::local_length_error;
    case Code::canceled:
      return Status::flushed;
    case Code::peer_failed:
      return Status::retry_exceeded;
    default:
      return Status::remote_operation_error;
  }
}

int error_of(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return 0;
    case Code::mismatch:
      return FI_ETRUNC;
    case Code::canceled:
      return FI_ECANCELED;
    case Code::peer_failed:
      return FI_EHOSTUNREACH;
    default:
      return FI_EIO;
  }
}

}  // namespace

bool Rdm::send(message::Peer to, std::span<const std::byte> header, std::span<const iovec> payload,
               void* operation) {
  const RdmPeer& peer = peers_[to];
  const LKey key = domain.device->memory.lkey();
  std::array<Sge, 1 + kIovLimit> pieces;
  size_t count = 0, length = header.size();
  pieces[count++] = {const_cast<std::byte*>(header.data()), static_cast<uint32_t>(header.size()),
                     key};
  for (const iovec& piece : payload) {
    pieces[count++] = {piece.iov_base, static_cast<uint32_t>(piece.iov_len), key};
    length += piece.iov_len;
  }
  SendRequest request;
  request.id = RdmId{RdmTask::message, operation}.packed();
  request.flags = SendFlags::signaled | SendFlags::ordered;
  if (length <= kInline) request.flags = request.flags | SendFlags::inline_data;
  request.sges = {pieces.data(), count};
  request.to = &peer.handle;
  request.remote_qpn = peer.name.queue;
  return queue_.post(request);
}

bool Rdm::read(message::Peer from, uint64_t address, RKey key, iovec into, void* operation) {
  const RdmPeer& peer = peers_[from];
  const Sge piece{into.iov_base, static_cast<uint32_t>(into.iov_len), domain.device->memory.lkey()};
  SendRequest request;
  request.id = RdmId{RdmTask::transfer, operation}.packed();
  request.opcode = Opcode::read;
  request.sges = {&piece, 1};
  request.remote_address = address;
  request.rkey = key;
  request.to = &peer.handle;
  request.remote_qpn = peer.name.queue;
  return queue_.post(request);
}

Result<message::Exposed> Rdm::expose(iovec memory) {
  auto region = domain.device->domain.register_memory(memory.iov_base, memory.iov_len,
                                                      Access::remote_read | Access::on_demand);
  if (!region) return region.error();
  const RKey key = region->rkey();
  return message::Exposed{std::make_shared<MemoryRegion>(std::move(*region)), key};
}

void Rdm::complete(const message::Completed& completed) {
  CqEntry entry;
  entry.context = completed.context;
  entry.flags =
      (completed.received ? FI_RECV : FI_SEND) | (completed.envelope.tagged ? FI_TAGGED : FI_MSG);
  entry.error = error_of(completed.code);
  entry.prov_error = static_cast<int>(status_of(completed.code));
  if (entry.error == FI_EIO)
    FI_INFO(&provider(), FI_LOG_EP_DATA, "a %s ended in %s\n",
            completed.received ? "receive" : "send", name(completed.code).data());
  const CompletionKind kind = CompletionKind::of(completed.cookie);
  if (!completed.received) {
    peers_.end(completed.envelope.peer);
    return bound.transmit.report(entry, kind.reports);
  }
  if (completed.has_data) entry.flags |= FI_REMOTE_CQ_DATA;
  if (kind.many && completed.released) entry.flags |= FI_MULTI_RECV;
  entry.data = completed.data;
  entry.tag = completed.envelope.tag;
  entry.length = completed.length;
  entry.beyond = completed.beyond;
  entry.buffer = completed.buffer;
  if (completed.envelope.peer < peers_.size())
    entry.source = peers_.number_of(*av, completed.envelope.peer);
  bound.receive.report(entry, kind.reports);
}

std::optional<message::Peer> Rdm::sender_of(const Completion& completion) {
  const uint64_t key = uint64_t{completion.source_peer} << 32 | completion.source_qp.value;
  const bool numbers_last = senders_.size() < kKnownSenders;
  if (const auto at = senders_.find(key); numbers_last && at != senders_.end()) return at->second;
  const auto gid = domain.device->device.peer_address(completion.source_peer);
  const auto peer = peers_.sender(*av, gid.value_or(Gid{}), completion.source_qp);
  if (!peer) {
    FI_WARN(&provider(), FI_LOG_EP_DATA,
            "a message of %s is dropped: more than %zu peers are not in the address vector\n",
            to_string(gid.value_or(Gid{})).c_str(), kMostUnknown);
    return {};
  }
  if (numbers_last) {
    senders_[key] = *peer;
    peers_[*peer].sender = key;
  }
  return peer;
}

// Those that are not in the address vector and gone make room for others; of those that are silent,
// a few are asked whether they are.
void Rdm::forget_peers() {
  for (size_t i = 0; i < kSweep && peers_.has_many_unknown(*av); ++i) {
    const message::Peer number = peers_.next_unknown();
    RdmPeer& peer = peers_[number];
    if (!peer.is_gone && peer.is_resolved()) {
      messages_.probe(number);
    } else if (peer.outstanding == 0 && peer.messages == 0 && messages_.forget(number)) {
      senders_.erase(peer.sender);
      for (const uint64_t key : keys_.of(number)) keys_.forget(number, key);
      peers_.forget(number);
    }
  }
}

void Rdm::on_receive(const Completion& completion) {
  const auto index = static_cast<uint32_t>(RdmId::of(completion.id).number);
  if (completion.status == Status::flushed) return;
  if (completion.status != Status::success) return buffers_.give(index);
  guarded([&] {  // without memory the message is lost, and not the buffer
    if (has(completion.flags, CompletionFlags::rdma_write)) return on_remote_write(completion), 0;
    const auto bytes = buffers_.bytes(index, completion.byte_count);
    if (bytes.empty()) return 0;
    if (const auto from = sender_of(completion)) {
      peers_[*from].is_gone = false;
      on_message(*from, bytes);
    }
    return 0;
  });
  buffers_.give(index);
}

void Rdm::on_remote_write(const Completion& completion) {
  CqEntry entry;
  entry.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  entry.length = completion.byte_count;
  entry.data = uint64_t{completion.imm_high} << 32 | completion.imm_or_key;
  if (const auto from = sender_of(completion)) entry.source = peers_.number_of(*av, *from);
  bound.receive.report(entry, true);
}

void Rdm::on_message(message::Peer from, std::span<const std::byte> bytes) {
  switch (static_cast<OwnKind>(bytes[0])) {
    case OwnKind::atomic:
      return target_.on_atomic(from, bytes);
    case OwnKind::atomic_answer:
      return on_atomic_answer(from, bytes);
    case OwnKind::key:
      return target_.on_key(from, bytes);
    case OwnKind::key_answer:
      return on_key_answer(from, bytes);
    case OwnKind::event:
      return target_.on_event(bytes);
    default:
      return messages_.on_message(from, bytes);
  }
}

void Rdm::fail_peer(message::Peer peer, Status status) {
  const RdmPeer& failed = peers_[peer];
  FI_LOG(&provider(), failed.number == FI_ADDR_NOTAVAIL ? FI_LOG_INFO : FI_LOG_WARN, FI_LOG_EP_DATA,
         "the endpoint at %s does not answer: %s\n", text_of(failed.name).c_str(),
         name(status).data());
  peers_.lost(peer);
  messages_.on_peer_failed(peer, Code::peer_failed);
  atomics_.for_each([&](Atomic& asked) {
    if (asked.peer == peer) finish_atomic(asked, status);
  });
  for (const uint64_t key : keys_.of(peer)) {
    end_question(peer, key, status, {});
    keys_.forget(peer, key);
  }
}

void Rdm::handle(const Completion& completion) {
  const RdmId id = RdmId::of(completion.id);
  if (id.task == RdmTask::buffer) return on_receive(completion);
  --queue_.in_flight;
  if (completion.status != Status::success)
    FI_INFO(&provider(), FI_LOG_EP_DATA, "a request ended in %s, reason %u\n",
            name(completion.status).data(), completion.vendor_error);
  if (id.task == RdmTask::request)
    return on_request(*static_cast<Request*>(id.pointer()), completion.status);
  message::Peer peer;
  const Code code = code_for_message(id.task, completion.status);
  if (id.task == RdmTask::own) {
    auto* const own = static_cast<OwnMessage*>(id.pointer());
    peer = own->to;
    Atomic* const asked = own->atomic ? atomics_.find(*own->atomic) : nullptr;
    const std::optional<uint64_t> key = own->key;
    own_.give(*own);
    if (completion.status != Status::success && key)
      end_question(peer, *key, completion.status, {});
    if (completion.status != Status::success && asked != nullptr)
      finish_atomic(*asked, completion.status);
  } else {
    peer = static_cast<message::Operation*>(id.pointer())->peer;
    if (id.task == RdmTask::message)
      messages_.on_sent(id.pointer(), code);
    else
      messages_.on_read(id.pointer(), code);
  }
  if (code == Code::peer_failed) fail_peer(peer, completion.status);
}

// Sends what found no room.
void Rdm::retry() noexcept {
  queue_.is_full = false;
  if (!own_.retry()) return;
  guarded([&] {
    if (send_requests()) messages_.resume();
    return 0;
  });
}

size_t Rdm::progress_locked() noexcept {
  std::array<Completion, kBatch> batch;
  buffers_.release();
  const size_t count = cq_.poll(batch);
  for (size_t i = 0; i < count; ++i) guarded([&] { return handle(batch[i]), 0; });
  if (queue_.is_full && count != 0) retry();
  return count;
}

}  // namespace weft::fi
