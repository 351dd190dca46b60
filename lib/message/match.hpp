// SPDX-License-Identifier: BSD-3-Clause
// Which message goes to which receive. A message has an envelope; a receive names a pattern. A
// message takes the receive posted first among those it matches; a receive takes the message that
// arrived first. Receives without ignored bits, and messages, are found by hash.
#pragma once

#include <cstdint>

#include "lib/message/list.hpp"

namespace weft::message {

// A number of the user's for a peer.
using Peer = uint32_t;
inline constexpr Peer kAnyPeer = UINT32_MAX;

struct Envelope {
  bool tagged = false;  // tagged and other messages never match each other
  Peer peer = 0;
  uint64_t tag = 0;  // 0 where not tagged
};

struct Pattern {
  bool tagged = false;
  Peer peer = kAnyPeer;
  uint64_t tag = 0;
  uint64_t ignore = 0;  // bits of the tag that need not be equal
};

inline bool matches(const Pattern& pattern, const Envelope& envelope) noexcept {
  return pattern.tagged == envelope.tagged &&
         (pattern.peer == kAnyPeer || pattern.peer == envelope.peer) &&
         ((pattern.tag ^ envelope.tag) & ~pattern.ignore) == 0;
}

// A receive that waits for messages: base of what the user of the queue keeps of it.
struct Posted : Link<0>, Link<1> {
  Pattern pattern;
  uint64_t order = 0;  // of posting
};

// Receives that no message has taken.
class PostedQueue {
 public:
  void insert(Posted* receive) noexcept;
  void remove(Posted* receive) noexcept;
  // The receive that the message takes, or null. It stays in the queue.
  Posted* find(const Envelope& envelope) const noexcept;
  // All receives in order of posting: the first, and the one behind another; null at the end.
  Posted* first() const noexcept { return all_.front(); }
  // How many name a peer.
  size_t named() const noexcept { return named_; }
  Posted* after(const Posted* receive) const noexcept { return all_.after(receive); }
  void check_invariants() const;

 private:
  HashLists<Posted, 0> exact_;  // by kind, peer (or kAnyPeer) and tag
  List<Posted, 0> masked_;      // with ignored bits
  List<Posted, 1> all_;
  size_t named_ = 0;
  uint64_t next_order_ = 0;
};

// A message that no receive has taken: base of what the user of the queue keeps of it.
struct Waiting : Link<0>, Link<1>, Link<2> {
  Envelope envelope;
};

// Messages in order of arrival.
class WaitingQueue {
 public:
  void insert(Waiting* message) noexcept;
  void remove(Waiting* message) noexcept;
  // The message that the receive takes, or null. It stays in the queue.
  Waiting* find(const Pattern& pattern) const noexcept;
  Waiting* first() const noexcept { return all_.front(); }
  Waiting* after(const Waiting* message) const noexcept { return all_.after(message); }
  void check_invariants() const;

 private:
  List<Waiting, 0> all_;
  HashLists<Waiting, 1> by_peer_;  // by kind, peer and tag
  HashLists<Waiting, 2> by_tag_;   // by kind and tag
};

}  // namespace weft::message
