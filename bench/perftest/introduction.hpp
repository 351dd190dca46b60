// SPDX-License-Identifier: BSD-3-Clause
// How the two sides of a measurement introduce themselves in the private data of their first
// connection: the options that must agree, and where the memory is. JSON, so that the message about
// a difference can name both values; where there is room for 56 bytes only, a digest of each option
// in its place, so that it can still name the option.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/perftest/options.hpp"
#include "weft/types.hpp"

namespace weft::bench {

struct PeerMemory {
  uint64_t address = 0;
  RKey rkey;
  uint32_t srq = 0;  // XRC: of its receives
};

// At most `most` bytes, which are 56 or more.
std::vector<std::byte> introduce(const Options& options, PeerMemory ours, size_t most);
// What the other side has said, if it fits. Error: invalid_argument.
Result<PeerMemory> meet(const Options& options, std::span<const std::byte> said);

}  // namespace weft::bench
