// SPDX-License-Identifier: BSD-3-Clause
// Reads dumps of ranks (Communicator::dump()) and converts them to one clock.
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
  uint64_t blocks = 0;  // hash of the block sizes
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

// A piece that appears in the dumps of its sender and of its receiver.
struct PieceTransfer {
  const Dump *from = nullptr, *to = nullptr;
  int64_t sent_ns = 0;
  const DumpedStep* received = nullptr;
};
std::vector<PieceTransfer> piece_transfers(const std::vector<Dump>& dumps);

// Errors: not_found; invalid_argument if the file is not a dump.
Result<Dump> read_dump(const std::string& file);

// Converts all times to the clock of the first dump. The offset between two hosts follows from the
// fastest piece in each direction, which are taken to be equally fast. Returns the hosts without
// pieces in both directions, whose clocks stay as they are.
std::vector<std::string> align_clocks(std::vector<Dump>& dumps);

}  // namespace weft::bench
