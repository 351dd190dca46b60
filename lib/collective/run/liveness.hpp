// SPDX-License-Identifier: BSD-3-Clause
// Liveness of processes: the connection over which two ranks were introduced stays open, idle. When
// a process ends, however it ends, its kernel closes it, and the peer sees it at once instead of
// after the dead peer timeout. A host that fails closes nothing: then keepalives detect it.
#pragma once

#include <memory>
#include <vector>

#include "weft/connect.hpp"

namespace weft::collective {

class Liveness {
 public:
  void watch(uint32_t rank, std::shared_ptr<const int> control) {
    peers_.push_back({std::move(control), rank});
  }

  // Ranks whose processes have ended since the last call.
  std::vector<uint32_t> exited_peers();

 private:
  struct Peer {
    std::shared_ptr<const int> control;  // Connection::control
    uint32_t rank = 0;
  };
  std::vector<Peer> peers_;
};

}  // namespace weft::collective
