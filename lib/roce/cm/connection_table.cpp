// SPDX-License-Identifier: BSD-3-Clause
// See connection_table.hpp.
#include "lib/roce/cm/connection_table.hpp"

#include "lib/base/check.hpp"
#include "lib/base/undo.hpp"

namespace weft::cm {

Connection& ConnectionTable::create(State state, const Gid& peer, uint8_t slot,
                                    base::SecureRandom& random) {
  constexpr uint32_t kSlotShift = 24;
  const auto draw = [&] {
    const uint32_t bits = random.next32();
    return slot == 0 ? bits : uint32_t{slot} << kSlotShift | bits >> (32 - kSlotShift);
  };
  uint32_t id = 0;
  while (id == 0 || by_id_.contains(id)) id = draw();
  auto made = std::make_unique<Connection>(id, state, peer);
  return *by_id_.emplace(id, std::move(made)).first->second;
}

void ConnectionTable::erase(Connection& c) noexcept {
  WEFT_CHECK(find(c.id) == &c);
  WEFT_CHECK(!c.timer.armed() && !c.ready.listed && !c.queued.listed);
  remove_half_open(c);
  forget_peer_qpn(c);
  erase_from(by_peer_id_, {c.peer, c.peer_id}, c);
  erase_from(by_sidr_request_, {c.peer, c.peer_id}, c);
  by_id_.erase(c.id);
}

Connection* ConnectionTable::find(uint32_t id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

void ConnectionTable::set_peer(Connection& c, uint32_t peer_id, QpNum peer_qpn) {
  WEFT_DCHECK(find(c.id) == &c);
  const auto [by_qpn, is_new] = by_peer_qpn_.try_emplace({c.peer, peer_qpn.value}, &c);
  base::Undo undo([this, at = by_qpn, fresh = is_new] {
    if (fresh) by_peer_qpn_.erase(at);
  });
  by_peer_id_[{c.peer, peer_id}] = &c;
  undo.forget();
  by_qpn->second = &c;
  c.peer_id = peer_id;
  c.peer_qpn = peer_qpn;
}

void ConnectionTable::set_sidr_request(Connection& c, uint32_t request_id) {
  WEFT_DCHECK(c.state == State::sidr_received);
  WEFT_DCHECK(find_sidr_request(c.peer, request_id) == nullptr);
  c.peer_id = request_id;
  by_sidr_request_[{c.peer, request_id}] = &c;
}

void ConnectionTable::forget_peer_qpn(Connection& c) noexcept {
  erase_from(by_peer_qpn_, {c.peer, c.peer_qpn.value}, c);
}

void ConnectionTable::add_half_open(Connection& c) noexcept {
  WEFT_DCHECK(!c.half_open.listed);
  half_open_.push(c);
  ++half_open_count_;
}

// An index may name a newer connection by then.
void ConnectionTable::erase_from(Index& index, const PeerKey& key, const Connection& c) noexcept {
  const auto found = index.find(key);
  if (found != index.end() && found->second == &c) index.erase(found);
}

}  // namespace weft::cm
