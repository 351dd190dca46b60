// SPDX-License-Identifier: BSD-3-Clause
// Liveness of processes: an idle TCP connection to every other rank. When a process ends, however
// it ends, its kernel closes them, and the peers see it at once instead of after the dead peer
// timeout. A host that fails closes nothing: then keepalives detect it.
#pragma once

#include <string>
#include <vector>

#include "lib/base/tcp.hpp"
#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::collective {

class Liveness {
 public:
  // Listens at `host`, an address as in "127.0.0.1" or "[::1]". Errors: io_error.
  static Result<Liveness> listen(const std::string& host);
  uint16_t port() const { return port_; }

  // To a rank that listens at host:port; sends it this rank's number. Errors: timed_out, not_found.
  Result<void> connect(uint32_t peer, const std::string& host, uint16_t port, uint32_t rank,
                       Duration limit);
  // From `count` ranks. Errors: timed_out.
  Result<void> accept(uint32_t count, Duration limit);

  // Ranks whose processes have ended since the last call.
  std::vector<uint32_t> exited_peers();

 private:
  struct Peer {
    base::Socket socket;
    uint32_t rank = 0;
  };
  base::Socket listener_;
  uint16_t port_ = 0;
  std::vector<Peer> peers_;
};

}  // namespace weft::collective
