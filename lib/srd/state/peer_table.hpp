// SPDX-License-Identifier: BSD-3-Clause
// Peers by address and QPN prefix (open addressing) and by index. Indexes are dense and stay
// valid until the peer is removed; the place of a removed peer is for the next one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/srd/state/peer.hpp"

namespace weft::srd {

class PeerTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  PeerTable() : slots_(64) {}
  Peer* find(const Gid& address, uint32_t qpn_prefix) noexcept;
  // Places in use; one is empty only between remove() and insert().
  size_t size() const noexcept { return peers_.size(); }
  Peer& operator[](size_t index) const noexcept { return *peers_[index]; }
  Peer* get(size_t index) const noexcept {
    return index < peers_.size() ? peers_[index].get() : nullptr;
  }
  auto begin() const noexcept { return peers_.begin(); }
  auto end() const noexcept { return peers_.end(); }

  // A place more, with index size() - 1 after this. Throws std::bad_alloc, and nothing has changed.
  void add_place();
  // `index` is an empty place. The peer's address and QPN prefix are set.
  Peer* insert(uint32_t index, std::unique_ptr<Peer> peer) noexcept;
  void remove(uint32_t index) noexcept;
  // Where a walk over the places that was interrupted continues.
  uint32_t next_to_examine() noexcept { return hand_++ % static_cast<uint32_t>(peers_.size()); }

 private:
  struct Slot {  // a peer is touched only if its hash matches
    Peer* peer = nullptr;
    uint32_t hash = 0;
  };
  void place(Slot slot) noexcept;

  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Slot> slots_;
  Peer* last_ = nullptr;  // that was found
  uint32_t hand_ = 0;
};

}  // namespace weft::srd
