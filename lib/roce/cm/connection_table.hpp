// SPDX-License-Identifier: BSD-3-Clause
// The connections of an agent, by local id, by the peer's id, by the peer's queue pair and (SIDR)
// by the peer's request id; and the half-open ones, oldest first.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "lib/base/random.hpp"
#include "lib/roce/cm/connection.hpp"

namespace weft::cm {

class ConnectionTable {
 public:
  size_t size() const noexcept { return by_id_.size(); }
  // With a random id, so that no third party off the path can send MADs of the connection. `slot`,
  // unless it is 0, is in its upper 8 bits.
  Connection& create(State state, const Gid& peer, uint8_t slot, base::SecureRandom& random);
  // Of all indices; the connection is neither armed nor in an inbox.
  void erase(Connection& c) noexcept;

  Connection* find(uint32_t id) const noexcept;
  Connection* find_by_peer_id(const Gid& peer, uint32_t peer_id) const noexcept {
    return find_in(by_peer_id_, {peer, peer_id});
  }
  Connection* find_by_peer_qpn(const Gid& peer, uint32_t qpn) const noexcept {
    return find_in(by_peer_qpn_, {peer, qpn});
  }
  Connection* find_sidr_request(const Gid& peer, uint32_t request_id) const noexcept {
    return find_in(by_sidr_request_, {peer, request_id});
  }

  // The peer's id and queue pair are known. Throws std::bad_alloc, and then nothing has changed.
  void set_peer(Connection& c, uint32_t peer_id, QpNum peer_qpn);
  void set_sidr_request(Connection& c, uint32_t request_id);
  // The peer may connect its queue pair anew.
  void forget_peer_qpn(Connection& c) noexcept;

  size_t half_open_count() const noexcept { return half_open_count_; }
  void add_half_open(Connection& c) noexcept;
  void remove_half_open(Connection& c) noexcept {
    if (half_open_.remove(c)) --half_open_count_;
  }
  Connection* oldest_half_open() const noexcept { return half_open_.front(); }

  template <class Visit>
  void visit(Visit visit) const {
    for (const auto& [id, c] : by_id_) visit(*c);
  }

 private:
  using PeerKey = std::pair<Gid, uint32_t>;
  using Index = std::map<PeerKey, Connection*>;
  static Connection* find_in(const Index& index, const PeerKey& key) noexcept {
    const auto found = index.find(key);
    return found == index.end() ? nullptr : found->second;
  }
  static void erase_from(Index& index, const PeerKey& key, const Connection& c) noexcept;

  std::unordered_map<uint32_t, std::unique_ptr<Connection>> by_id_;
  Index by_peer_id_;
  Index by_peer_qpn_;
  Index by_sidr_request_;
  base::Line<Connection, &Connection::half_open> half_open_;
  size_t half_open_count_ = 0;
};

}  // namespace weft::cm
