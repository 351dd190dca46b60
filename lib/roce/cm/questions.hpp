// SPDX-License-Identifier: BSD-3-Clause
// How many questions (REQ, SIDR_REQ) a peer is asked at once. It keeps a bounded number of those
// that its application has not answered (here AgentConfig::max_half_open) and has a bounded buffer
// for those it has not read; what a burst of more loses is asked again no sooner than 268 ms later.
// So the others stand in line until one of the first is answered or given up.
#pragma once

#include <map>

#include "lib/roce/cm/connection.hpp"

namespace weft::cm {

class Questions {
 public:
  explicit Questions(uint32_t at_once) noexcept : at_once_(at_once) {}

  // True: ask now. False: it stands in line. Throws std::bad_alloc, and then nothing has changed.
  bool begin(Connection& c) {
    Peer& peer = peers_[c.peer];
    if (peer.asking == at_once_) return peer.line.push(c), false;
    ++peer.asking;
    return c.asking = true;
  }

  // This one asks no more, or has not asked: any number of times. Returns who may ask now, or null.
  Connection* finish(Connection& c) noexcept {
    if (!c.asking && !c.in_line.listed) return nullptr;
    const auto found = peers_.find(c.peer);
    Peer& peer = found->second;
    if (!c.asking) return peer.line.remove(c), nullptr;
    c.asking = false;
    if (!peer.line.empty()) {
      Connection& next = peer.line.pop();
      next.asking = true;
      return &next;
    }
    if (--peer.asking == 0) peers_.erase(found);
    return nullptr;
  }

 private:
  struct Peer {
    uint32_t asking = 0;
    base::Line<Connection, &Connection::in_line> line;  // not empty: `asking` is at_once_
  };
  const uint32_t at_once_;
  std::map<Gid, Peer> peers_;
};

}  // namespace weft::cm
