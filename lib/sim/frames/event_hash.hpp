// SPDX-License-Identifier: BSD-3-Clause
// A fingerprint of a run: 64 bits over every arrival (time, node, bytes of the frame), in order.
// Two runs of the same seed have the same one, from every compiler and optimization. Four lanes, so
// that it keeps up with the simulation; it is no cryptographic hash.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "weft/units.hpp"

namespace weft::sim {

class EventHash {
 public:
  void add(Instant at, uint32_t node, const std::byte* bytes, size_t size) noexcept {
    mix(0, static_cast<uint64_t>(at.ps));
    mix(1, uint64_t{node} << 32 | size);
    while (size >= 32) {
      for (unsigned lane = 0; lane < 4; ++lane) mix(lane, load(bytes + 8 * lane, 8));
      bytes += 32;
      size -= 32;
    }
    for (unsigned lane = 0; size != 0; ++lane) {
      const size_t piece = size < 8 ? size : 8;
      mix(lane, load(bytes, piece));
      bytes += piece;
      size -= piece;
    }
    ++events_;
  }

  uint64_t value() const noexcept {
    uint64_t h = events_;
    for (const uint64_t lane : lanes_) {
      h = (h ^ lane) * 0x9FB21C651E98DF25;
      h ^= h >> 32;
    }
    return h;
  }

 private:
  static uint64_t load(const std::byte* from, size_t size) noexcept {
    uint64_t word = 0;
    std::memcpy(&word, from, size);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word;
  }
  void mix(unsigned lane, uint64_t word) noexcept {
    lanes_[lane] = std::rotl((lanes_[lane] ^ word) * 0xD6E8FEB86659FD93, 29);
  }

  uint64_t lanes_[4] = {0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0,
                        0x082EFA98EC4E6C89};
  uint64_t events_ = 0;
};

}  // namespace weft::sim
