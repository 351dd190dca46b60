// SPDX-License-Identifier: BSD-3-Clause
// See own_messages.hpp.
#include "lib/adapters/fi/rdm/own_messages.hpp"

#include "lib/adapters/fi/rdm/ids.hpp"
#include "lib/adapters/fi/rdm/limits.hpp"

namespace weft::fi {

bool OwnMessages::post(OwnMessage& own) noexcept {
  const RdmPeer& peer = peers_[own.to];
  const Sge piece{own.bytes.data(), static_cast<uint32_t>(own.bytes.size()), memory_};
  SendRequest request;
  request.id = RdmId{RdmTask::own, &own}.packed();
  request.flags = SendFlags::signaled | SendFlags::ordered;
  request.sges = {&piece, 1};
  request.to = &peer.handle;
  request.remote_qpn = peer.name.queue;
  return queue_.post(request);
}

OwnMessage& OwnMessages::make(message::Peer to, std::vector<std::byte> bytes) {
  OwnMessage* const own = pool_.take();
  if (own == nullptr) throw std::bad_alloc();
  own->to = to;
  own->bytes = std::move(bytes);
  own->atomic.reset();
  own->key.reset();
  own->is_answer = false;
  ++peers_[to].messages;
  return *own;
}

void OwnMessages::count_answers(const OwnMessage& own, int change) noexcept {
  if (!own.is_answer) return;
  peers_[own.to].unsent_answers += static_cast<uint32_t>(change);
  unsent_answers_ += static_cast<size_t>(change);
  WEFT_DCHECK(peers_[own.to].unsent_answers <= kQuestions);
}

void OwnMessages::submit(OwnMessage& own) noexcept {
  if (unsent_.empty() && post(own)) return;
  unsent_.push_back(&own);
  count_answers(own, 1);
}

OwnMessage& OwnMessages::send(message::Peer to, std::vector<std::byte> bytes) {
  OwnMessage& own = make(to, std::move(bytes));
  submit(own);
  return own;
}

void OwnMessages::answer(message::Peer to, std::vector<std::byte> bytes) {
  WEFT_DCHECK(may_ask(to));
  OwnMessage& own = make(to, std::move(bytes));
  own.is_answer = true;
  submit(own);
}

// An answer that waits has not arrived, so that its question is among those that the peer awaits.
bool OwnMessages::may_ask(message::Peer from) const noexcept {
  return peers_[from].unsent_answers < kQuestions;
}

bool OwnMessages::has_many() const noexcept { return unsent_answers_ >= kMostAnswers; }

void OwnMessages::give(OwnMessage& ended) noexcept {
  WEFT_CHECK(peers_[ended.to].messages > 0);
  --peers_[ended.to].messages;
  ended.bytes = {};
  pool_.give(&ended);
}

bool OwnMessages::retry() noexcept {
  while (OwnMessage* own = unsent_.front()) {
    if (!post(*own)) return false;
    message::List<OwnMessage, 0>::remove(own);
    count_answers(*own, -1);
  }
  return true;
}

}  // namespace weft::fi
