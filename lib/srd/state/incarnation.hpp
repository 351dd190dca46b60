// SPDX-License-Identifier: BSD-3-Clause
// Incarnations: 64 bits by which packets name the process that they are for (SRD.md, hello and
// welcome). Each is a keyed hash of the other endpoint's address, its QPN prefix, and the time at
// which it was issued, so it needs no state until a packet names it: only an endpoint that receives
// what is sent to its address can (address validation), and not for long. The next process at our
// address has another key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lib/base/chacha20.hpp"
#include "lib/base/random.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::srd {

class Incarnations {
 public:
  // Shorter than a peer is remembered (receive/peers.cpp): a stream that was forgotten cannot be
  // introduced again.
  static constexpr Duration kFresh = Duration::from_s(4);

  void draw(base::SecureRandom& random) {
    for (uint32_t& word : key_) word = random.next32();
  }
  // Nanoseconds of `now`, later than those of every call before.
  uint64_t take_stamp(Instant now) noexcept {
    return last_stamp_ = std::max(last_stamp_ + 1, static_cast<uint64_t>(now.ps) / 1000);
  }
  // Never 0, which stands for "not known".
  uint64_t issue(const Gid& address, uint32_t qpn_prefix, uint64_t stamp) const noexcept {
    const Words ours = words_for(address, qpn_prefix);
    uint32_t state[16] = {0x61707865, 0x3320646E, 0x79622D32, 0x6B206574};
    std::memcpy(&state[4], &ours, 8 * sizeof(uint32_t));
    std::memcpy(&state[12], &stamp, sizeof stamp);
    uint32_t out[16];
    base::chacha20_block(state, out);
    const uint64_t incarnation = uint64_t{out[0]} << 32 | out[1];
    return incarnation != 0 ? incarnation : 1;
  }
  // It was issued to that endpoint, and not long ago.
  bool accepts(uint64_t incarnation, const Gid& address, uint32_t qpn_prefix, uint64_t stamp,
               Instant now) const noexcept {
    const auto at = static_cast<uint64_t>(now.ps) / 1000;
    return stamp <= last_stamp_ && stamp + static_cast<uint64_t>(kFresh.ns()) > at &&
           incarnation == issue(address, qpn_prefix, stamp);
  }
  // What stands for this process towards another endpoint.
  uint64_t process_for(const Gid& address, uint32_t qpn_prefix) const noexcept {
    const Words ours = words_for(address, qpn_prefix);
    return uint64_t{ours.of[8]} << 32 | ours.of[9];
  }
  // What the response to a request for a route repeats.
  uint32_t challenge_for(const Gid& address, uint32_t qpn_prefix) const noexcept {
    const Words ours = words_for(address, qpn_prefix);
    return ours.of[10] != 0 ? ours.of[10] : 1;
  }
  // Seed of hash tables whose keys a peer can choose.
  uint64_t hash_seed() const noexcept { return uint64_t{key_[0]} << 32 | key_[1]; }

 private:
  struct Words {
    uint32_t of[16];
  };
  Words words_for(const Gid& address, uint32_t qpn_prefix) const noexcept {
    uint32_t state[16] = {0x61707865, 0x3320646E, 0x79622D32, qpn_prefix};
    std::memcpy(&state[4], key_, sizeof key_);
    std::memcpy(&state[12], address.bytes.data(), 16);
    Words words;
    base::chacha20_block(state, words.of);
    return words;
  }

  uint32_t key_[8] = {};
  uint64_t last_stamp_ = 0;
};

}  // namespace weft::srd
