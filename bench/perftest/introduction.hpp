// SPDX-License-Identifier: BSD-3-Clause
// The private data of the first connection: the options that must agree, and the peer's memory.
// JSON, so that an error can name both values; if there is room for 56 bytes only, a digest of each
// option, so that an error can still name the option.
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
  uint32_t srq = 0;  // XRC: number of its SRQ
};

// At most `most` bytes, which are 56 or more.
std::vector<std::byte> encode_introduction(const Options& options, PeerMemory ours,
                                           size_t max_bytes);
// Checks the peer's options and returns its memory. Errors: invalid_argument (names the option).
Result<PeerMemory> check_introduction(const Options& options, std::span<const std::byte> peer_data);

}  // namespace weft::bench
