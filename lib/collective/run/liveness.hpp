// SPDX-License-Identifier: BSD-3-Clause
// Lifelines: a TCP connection to every other rank, over which nothing is said. When a process ends,
// however it ends, its kernel closes them, and the others know at once instead of after a second of
// silence. A host that dies closes nothing: then the silence tells.
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

  // To a rank that listens at host:port; tells it our rank. Errors: timed_out, not_found.
  Result<void> connect(uint32_t peer, const std::string& host, uint16_t port, uint32_t rank,
                       Duration limit);
  // From `count` ranks. Errors: timed_out.
  Result<void> accept(uint32_t count, Duration limit);

  // The ranks whose processes have ended since the last call.
  std::vector<uint32_t> ended();

 private:
  struct Line {
    base::Socket socket;
    uint32_t peer = 0;
  };
  base::Socket listener_;
  uint16_t port_ = 0;
  std::vector<Line> lines_;
};

}  // namespace weft::collective
