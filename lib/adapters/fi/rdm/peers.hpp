// SPDX-License-Identifier: BSD-3-Clause
// The peers of an endpoint, by the numbers that lib/message knows them by. A peer is known by its
// device's address and its queue pair number; one that was inserted as host and port only gets its
// queue pair number from its name service (resolver.hpp).
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "lib/adapters/fi/common/address.hpp"
#include "lib/adapters/fi/rdm/av.hpp"
#include "lib/message/match.hpp"
#include "weft/ah.hpp"

namespace weft::fi {

struct RdmPeer {
  Name name;                            // `queue` 0: not resolved yet
  fi_addr_t number = FI_ADDR_NOTAVAIL;  // in the address vector
  AddressHandle handle;
  int64_t asked_ms = 0;  // when the name service was asked last
  bool is_resolved() const noexcept { return name.queue.value != 0; }
};

// One thread at a time.
class Peers {
 public:
  // The peer with a number in the address vector; null: there is none. Throws std::bad_alloc.
  RdmPeer* find(Av& av, fi_addr_t number, message::Peer& out);
  // The peer that a message came from. Throws std::bad_alloc.
  message::Peer sender(Av* av, const Gid& gid, QpNum queue);
  // The number of a peer in the address vector, or FI_ADDR_NOTAVAIL.
  fi_addr_t number_of(Av* av, message::Peer peer);
  // The answer of a name service.
  void resolved(message::Peer peer, const Gid& gid, QpNum queue);

  RdmPeer& operator[](message::Peer peer) noexcept { return peers_[peer]; }
  size_t size() const noexcept { return peers_.size(); }

 private:
  static constexpr message::Peer kNone = UINT32_MAX;
  struct Hash {
    size_t operator()(const std::pair<Gid, uint32_t>& key) const noexcept;
  };
  message::Peer add(const Name& name);
  void refresh(Av& av);

  std::deque<RdmPeer> peers_;
  std::unordered_map<std::pair<Gid, uint32_t>, message::Peer, Hash> by_queue_;
  std::vector<message::Peer> by_number_;
  uint64_t changes_ = 0;  // of the address vector, when by_number_ was right
};

}  // namespace weft::fi
