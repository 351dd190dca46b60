// SPDX-License-Identifier: BSD-3-Clause
// poll() finds the connections that are closed.
#include "lib/collective/run/liveness.hpp"

#include <poll.h>

namespace weft::collective {

std::vector<uint32_t> Liveness::exited_peers() {
  std::vector<uint32_t> ranks;
  std::vector<pollfd> wanted;
  for (const Peer& peer : peers_) wanted.push_back({*peer.control, POLLIN, 0});
  if (wanted.empty() || poll(wanted.data(), wanted.size(), 0) <= 0) return ranks;
  for (size_t i = peers_.size(); i-- > 0;) {
    if (wanted[i].revents == 0) continue;  // peers send nothing: readable means closed
    ranks.push_back(peers_[i].rank);
    peers_.erase(peers_.begin() + static_cast<ptrdiff_t>(i));
  }
  return ranks;
}

}  // namespace weft::collective
