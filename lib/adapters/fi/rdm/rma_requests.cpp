// SPDX-License-Identifier: BSD-3-Clause
// READs and WRITEs of the program on their way to the queue pair, with provider keys at once, with
// keys of the program's choice when the peer has told what they stand for: remote_keys.hpp.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/rdm/endpoint.hpp"
#include "lib/adapters/fi/rdm/ids.hpp"
#include "lib/adapters/fi/rdm/own_wire.hpp"

namespace weft::fi {
namespace {

std::vector<std::byte> copy_of(const iovec* iov, size_t count, size_t length) {
  std::vector<std::byte> bytes;
  bytes.reserve(length);
  for (size_t i = 0; i < count; ++i) {
    const auto* from = static_cast<const std::byte*>(iov[i].iov_base);
    bytes.insert(bytes.end(), from, from + iov[i].iov_len);
  }
  return bytes;
}

// Whether the target counts what is done with the request's key.
bool counts_events(const Request& request, bool has_user_keys, RemoteKeys& keys) noexcept {
  if (!has_user_keys) return (request.key & kEventKey) != 0;
  const RemoteKeys::Key* const key = keys.find(request.peer, request.key);
  return key != nullptr && key->counts_events;
}

// Tells the target that the request was executed. Throws std::bad_alloc: it counts one less.
void tell(const Request& request, OwnMessages& messages) {
  RemoteEvent event{};
  event.kind = static_cast<uint8_t>(OwnKind::event);
  event.is_write = request.opcode == Opcode::read ? 0 : 1;
  event.key = request.key;
  const auto* const from = reinterpret_cast<const std::byte*>(&event);
  messages.send(request.peer, {from, from + sizeof event});
}

}  // namespace

ssize_t Rdm::post_rma(Opcode opcode, const iovec* iov, size_t count, fi_addr_t to, uint64_t address,
                      uint64_t key, uint64_t data, void* context, uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const std::lock_guard hold(lock_);
    message::Peer number;
    if (const ssize_t code = find_target(to, flags, number)) return code;
    if (queue_.is_full) return -FI_EAGAIN;
    if (count > kIovLimit) return -FI_EINVAL;
    if (!domain.has_user_keys && (key & ~kEventKey) > UINT32_MAX) return -FI_EKEYREJECTED;
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) length += iov[i].iov_len;
    if (length > info->ep_attr->max_msg_size) return -FI_EMSGSIZE;
    if ((flags & FI_INJECT) && length > kInject) return -FI_EMSGSIZE;
    Request* const request = requests_.take();
    if (request == nullptr) return -FI_EAGAIN;
    request->peer = number;
    request->opcode = opcode == Opcode::write && (flags & FI_REMOTE_CQ_DATA) != 0
                          ? Opcode::write_with_imm
                          : opcode;
    std::copy(iov, iov + count, request->pieces.begin());
    request->count = count;
    request->address = address;
    request->key = key;
    request->data = data;
    // A request with a key of the program's choice may be sent later, and once more.
    request->is_inline = (flags & FI_INJECT) != 0 && length <= kInline && !domain.has_user_keys;
    request->was_refused = false;
    request->context = context;
    request->flags = FI_RMA | (opcode == Opcode::read ? FI_READ : FI_WRITE);
    request->reports = (flags & FI_COMPLETION) != 0;
    if ((flags & FI_INJECT) && !request->is_inline && length != 0) {
      request->copy = copy_of(iov, count, length);
      request->pieces[0] = {request->copy.data(), length};
      request->count = 1;
    }
    if (domain.has_user_keys && !keys_.at(number, key).is_known) {
      if (!wait_for_key(*request)) return requests_.give(request), -FI_EAGAIN;
    } else if (const PostStatus posted = submit(*request); !posted) {
      return requests_.give(request), code_of(posted.code);
    }
    peers_.begin(number);
    return 0;
  });
}

// Posts a request whose key is known.
PostStatus Rdm::submit(const Request& request) noexcept {
  const RdmPeer& peer = peers_[request.peer];
  std::array<Sge, kIovLimit> pieces;
  for (size_t i = 0; i < request.count; ++i)
    pieces[i] = {request.pieces[i].iov_base, static_cast<uint32_t>(request.pieces[i].iov_len),
                 domain.device->memory.lkey()};
  SendRequest wanted;
  wanted.id = RdmId{RdmTask::request, const_cast<Request*>(&request)}.packed();
  wanted.opcode = request.opcode;
  if (request.is_inline) wanted.flags = SendFlags::signaled | SendFlags::inline_data;
  wanted.imm = static_cast<uint32_t>(request.data);
  if (request.opcode == Opcode::write_with_imm)
    wanted.imm_high = static_cast<uint32_t>(request.data >> 32);
  wanted.sges = {pieces.data(), request.count};
  wanted.remote_address = request.address;
  wanted.rkey = {static_cast<uint32_t>(request.key)};
  if (domain.has_user_keys) {
    const RemoteKeys::Key* const key = keys_.find(request.peer, request.key);
    WEFT_CHECK(key != nullptr && key->is_known);
    wanted.remote_address += key->base;
    wanted.rkey = key->rkey;
  }
  wanted.to = &peer.handle;
  wanted.remote_qpn = peer.name.queue;
  return queue_.try_post(wanted);
}

// Sends the request when the peer has told what its key stands for. False: the peer has too many
// questions to answer.
bool Rdm::wait_for_key(Request& request) {
  RemoteKeys::Key& key = keys_.at(request.peer, request.key);
  if (!key.is_asked) {
    if (peers_[request.peer].asked >= kQuestions) return false;
    KeyQuestion question{};
    question.kind = static_cast<uint8_t>(OwnKind::key);
    question.key = request.key;
    std::vector<std::byte> bytes(sizeof question);
    std::memcpy(bytes.data(), &question, sizeof question);
    own_.send(request.peer, std::move(bytes)).key = request.key;
    ++peers_[request.peer].asked;
    key.is_asked = true;
  }
  key.waiting.push_back(&request);
  return true;
}

// The peer has told what a key stands for, or it cannot tell: the status.
void Rdm::end_question(message::Peer from, uint64_t number, Status status,
                       const RemoteKeys::Key& meaning) {
  RemoteKeys::Key* const key = keys_.find(from, number);
  if (key == nullptr || !key->is_asked) return;
  --peers_[from].asked;
  key->is_asked = false;
  key->is_known = status == Status::success;
  key->rkey = meaning.rkey;
  key->base = meaning.base;
  key->counts_events = meaning.counts_events;
  message::List<Request, 0> waiting;
  while (Request* request = key->waiting.front()) {
    message::List<Request, 0>::remove(request);
    waiting.push_back(request);
  }
  if (!key->is_known) keys_.forget(from, number);
  while (Request* request = waiting.front()) {
    message::List<Request, 0>::remove(request);
    if (status != Status::success) {
      finish_request(*request, status);
    } else {
      unsent_requests_.push_back(request);
      queue_.is_full = true;  // retry() sends it
    }
  }
  if (queue_.is_full) retry();
}

void Rdm::on_key_answer(message::Peer from, std::span<const std::byte> bytes) {
  KeyAnswer answer;
  if (bytes.size() < sizeof answer) return;
  std::memcpy(&answer, bytes.data(), sizeof answer);
  RemoteKeys::Key meaning;
  meaning.rkey = {answer.rkey};
  meaning.base = answer.base;
  meaning.counts_events = answer.counts_events != 0;
  end_question(from, answer.key, answer.status == 0 ? Status::success : Status::remote_access_error,
               meaning);
}

// False: there is no room.
bool Rdm::send_requests() {
  while (Request* request = unsent_requests_.front()) {
    const RemoteKeys::Key* const key = keys_.find(request->peer, request->key);
    if (key == nullptr || !key->is_known) {  // forgotten in the meantime
      message::List<Request, 0>::remove(request);
      if (!wait_for_key(*request)) finish_request(*request, Status::remote_operation_error);
      continue;
    }
    const PostStatus posted = submit(*request);
    if (!posted && posted.code == Code::queue_full) return queue_.is_full = true, false;
    message::List<Request, 0>::remove(request);
    if (!posted) finish_request(*request, Status::local_qp_operation_error);
  }
  return true;
}

void Rdm::on_request(Request& request, Status status) {
  if (status == Status::remote_access_error && domain.has_user_keys && !request.was_refused) {
    request.was_refused = true;
    if (const auto* key = keys_.find(request.peer, request.key); key != nullptr && key->is_known)
      keys_.forget(request.peer, request.key);
    if (wait_for_key(request)) return;
  }
  const bool counts = counts_events(request, domain.has_user_keys, keys_);
  if (status == Status::success && counts) guarded([&] { return tell(request, own_), 0; });
  finish_request(request, status);
}

void Rdm::finish_request(Request& request, Status status) {
  CqEntry entry;
  entry.context = request.context;
  entry.flags = request.flags;
  entry.error = code_of(status);
  entry.prov_error = static_cast<int>(status);
  peers_.end(request.peer);
  const bool reports = request.reports;
  request.copy.clear();
  requests_.give(&request);
  bound.transmit.report(entry, reports);
}

}  // namespace weft::fi
