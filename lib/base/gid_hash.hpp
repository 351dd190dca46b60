// SPDX-License-Identifier: BSD-3-Clause
// The hash of a Gid. It uses both halves: IPv4 addresses differ in the second only, IPv6 addresses
// of one network often in a few bits of either.
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/types.hpp"

namespace weft::base {

struct GidHash {
  size_t operator()(const Gid& gid) const noexcept {
    uint64_t half[2];
    std::memcpy(half, gid.bytes.data(), sizeof half);
    const uint64_t mixed = (half[0] ^ half[1] * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    return mixed ^ mixed >> 32;
  }
};

}  // namespace weft::base
