// SPDX-License-Identifier: BSD-3-Clause
// Limits the outstanding requests (REQ, SIDR_REQ) to one peer. A peer keeps a bounded number of
// requests that its application has not answered (here AgentConfig::max_half_open) and has a
// bounded buffer for those that it has not read; what a larger burst loses is repeated no sooner
// than 268 ms later. So further requests are queued until one of the first is answered or
// abandoned.
#pragma once

#include <map>

#include "lib/base/check.hpp"
#include "lib/roce/cm/connection.hpp"

namespace weft::cm {

class RequestLimit {
 public:
  explicit RequestLimit(uint32_t limit) noexcept : limit_(limit) {}

  // True: send the request now. False: it is queued. Throws std::bad_alloc, and then nothing has
  // changed.
  bool begin(Connection& c) {
    WEFT_DCHECK(!c.outstanding && !c.queued.listed);
    Peer& peer = peers_[c.peer];
    if (peer.outstanding == limit_) return peer.queue.push(c), false;
    ++peer.outstanding;
    return c.outstanding = true;
  }

  // The request of `c` is answered or abandoned; no-op if it is neither outstanding nor queued.
  // Returns the connection whose request is to be sent now, or nullptr.
  Connection* finish(Connection& c) noexcept {
    if (!c.outstanding && !c.queued.listed) return nullptr;
    const auto found = peers_.find(c.peer);
    WEFT_DCHECK(found != peers_.end() && found->second.outstanding != 0);
    Peer& peer = found->second;
    WEFT_DCHECK(peer.outstanding <= limit_);
    if (!c.outstanding) return peer.queue.remove(c), nullptr;
    c.outstanding = false;
    if (!peer.queue.empty()) {
      Connection& next = peer.queue.pop();
      next.outstanding = true;
      return &next;
    }
    if (--peer.outstanding == 0) peers_.erase(found);
    return nullptr;
  }

  // Requests outstanding to all peers.
  size_t outstanding() const noexcept {
    size_t sum = 0;
    for (const auto& [address, peer] : peers_) sum += peer.outstanding;
    return sum;
  }

 private:
  struct Peer {
    uint32_t outstanding = 0;
    base::Line<Connection, &Connection::queued> queue;  // empty unless `outstanding` is limit_
  };
  const uint32_t limit_;
  std::map<Gid, Peer> peers_;
};

}  // namespace weft::cm
