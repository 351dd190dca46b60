// SPDX-License-Identifier: BSD-3-Clause
// Dumps of ranks (Communicator::dump()), read back and put on one clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::bench {

struct DumpedOperation {
  uint64_t sequence = 0;  // 0: an exchange
  std::string call;
  uint64_t blocks = 0;  // fingerprint
  std::string state;    // done, failed, running, waiting
  int64_t issued_ns = 0;
  std::optional<int64_t> started_ns, ended_ns;
};

struct DumpedStep {
  uint64_t sequence = 0, piece = 0;
  bool sent = false;
  uint32_t peer = 0, bytes = 0;
  int64_t time_ns = 0;
  uint32_t traffic_class = 2;
};

struct DumpedFailure {
  std::string code, text;
  uint32_t rank = 0;
};

struct Dump {
  std::string file, communicator, host;
  uint32_t rank = 0, ranks = 0;
  std::optional<DumpedFailure> failure;
  std::vector<DumpedOperation> operations;  // oldest first
  std::vector<DumpedStep> steps;
};

// A piece that both its ranks have noted.
struct Passage {
  const Dump *from = nullptr, *to = nullptr;
  int64_t sent_ns = 0;
  const DumpedStep* received = nullptr;
};
std::vector<Passage> passages(const std::vector<Dump>& dumps);

// Errors: not_found, and invalid_argument for what is no dump, with the file's name.
Result<Dump> read_dump(const std::string& file);

// Puts all times on the clock of the first dump: of ranks on other hosts by the pieces that went
// both ways between the hosts, as if the fastest of each direction took as long. Hosts between
// which nothing went both ways keep their clock, and are named in the result.
std::vector<std::string> align_clocks(std::vector<Dump>& dumps);

}  // namespace weft::bench
