// SPDX-License-Identifier: BSD-3-Clause
// The peers of an endpoint, by the numbers that lib/message knows them by. A peer is known by its
// device's address and its queue pair number; one that was inserted as host and port only gets its
// queue pair number from its name service (resolver.hpp). Until then nothing is sent to it and no
// receive names it: it may turn out to be a peer that has sent messages already.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "lib/adapters/fi/common/address.hpp"
#include "lib/adapters/fi/rdm/av.hpp"
#include "lib/base/check.hpp"
#include "lib/base/random.hpp"
#include "lib/message/match.hpp"
#include "weft/ah.hpp"

namespace weft::fi {

struct RdmPeer {
  Name name;                            // `queue` 0: not resolved yet
  fi_addr_t number = FI_ADDR_NOTAVAIL;  // in the address vector
  AddressHandle handle;
  int64_t asked_ms = 0;         // when the name service was asked last
  uint32_t cookie = 0;          // of the question; 0: not asked
  uint32_t outstanding = 0;     // operations of the program that have not completed
  uint32_t asked = 0;           // questions (OwnKind) that it has not answered
  uint32_t messages = 0;        // of OwnMessages
  uint32_t unsent_answers = 0;  // of these
  uint64_t sender = 0;          // key in Rdm::senders_
  bool is_gone = false;         // it does not answer
  bool in_use = true;
  bool is_unknown() const noexcept { return in_use && number == FI_ADDR_NOTAVAIL; }
  bool is_resolved() const noexcept { return name.queue.value != 0; }
};

// One thread at a time.
class Peers {
 public:
  // Handles have this traffic class (the DSCP, times 4).
  explicit Peers(uint8_t traffic_class) noexcept : traffic_class_(traffic_class) {}
  // The peer with a number in the address vector; null: there is none. Throws std::bad_alloc.
  RdmPeer* find(Av& av, fi_addr_t number, message::Peer& out);
  // The peer that a message came from. Nothing: kMostUnknown peers are not in the address vector.
  // Throws std::bad_alloc.
  std::optional<message::Peer> sender(Av& av, const Gid& gid, QpNum queue);
  // The number of a peer in the address vector, or FI_ADDR_NOTAVAIL.
  fi_addr_t number_of(Av& av, message::Peer peer);
  // Whether some that are not in the address vector should make room.
  bool has_many_unknown(Av& av);
  // One of them after another. Only while has_many_unknown().
  message::Peer next_unknown() noexcept;
  // Forgets one of them.
  void forget(message::Peer peer) noexcept;
  // What the answer about the peer must carry: no host that does not see the question guesses it.
  uint32_t question(message::Peer peer);
  // The answer of a name service. Throws std::bad_alloc.
  void resolved(uint32_t cookie, const Gid& gid, QpNum queue);
  // The peer does not answer, and is_gone. If it was named by host and port, another endpoint may
  // be there now: its name service is asked again.
  void lost(message::Peer peer) noexcept;

  // An operation of the program begins, or has completed.
  void begin(message::Peer peer) noexcept { ++peers_[peer].outstanding, ++outstanding_; }
  void end(message::Peer peer) noexcept {
    WEFT_CHECK(peers_[peer].outstanding > 0 && outstanding_ > 0);
    --peers_[peer].outstanding, --outstanding_;
  }
  // Those of all peers.
  size_t outstanding() const noexcept { return outstanding_; }

  RdmPeer& operator[](message::Peer peer) noexcept { return peers_[peer]; }
  size_t size() const noexcept { return peers_.size(); }

 private:
  static constexpr message::Peer kNone = UINT32_MAX;
  static constexpr uint64_t kOutdated = UINT64_MAX;
  struct Hash {
    size_t operator()(const std::pair<Gid, uint32_t>& key) const noexcept;
  };
  using ByKey = std::unordered_map<std::pair<Gid, uint32_t>, message::Peer, Hash>;
  message::Peer add(const Name& name);
  void refresh(Av& av);
  void set_number(message::Peer peer, fi_addr_t number);

  std::deque<RdmPeer> peers_;
  ByKey by_queue_;  // resolved ones
  ByKey by_port_;   // those that were inserted by host and port
  std::unordered_map<uint32_t, message::Peer> by_cookie_;  // those that are asked for
  std::vector<message::Peer> by_number_;
  std::vector<message::Peer> free_;  // numbers of forgotten ones
  size_t unknown_ = 0;               // not in the address vector
  size_t cursor_ = 0;                // of next_unknown()
  uint64_t changes_ = 0;             // of the address vector, when by_number_ was right
  AddressHandle handle_of(const Gid& gid) const noexcept {
    return AddressHandle({.destination = gid, .traffic_class = traffic_class_});
  }

  const uint8_t traffic_class_;
  size_t outstanding_ = 0;
  base::SecureRandom random_;
};

}  // namespace weft::fi
