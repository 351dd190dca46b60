// SPDX-License-Identifier: BSD-3-Clause
// Incarnations: the secret that this process has for each peer, a keyed hash of the peer's address
// and QPN prefix (SRD.md, reset). It needs no state per peer; a packet that names it was sent by
// a peer that receives what is sent to its address (address validation). The next process at the
// same address has another key.
#pragma once

#include <cstdint>
#include <cstring>

#include "lib/base/chacha20.hpp"
#include "lib/base/random.hpp"
#include "weft/types.hpp"

namespace weft::srd {

class IncarnationKey {
 public:
  void draw(base::SecureRandom& random) {
    for (uint32_t& word : key_) word = random.next32();
  }
  // Never 0, which stands for "not known".
  uint32_t incarnation_for(const Gid& address, uint32_t qpn_prefix) const noexcept {
    uint32_t state[16] = {0x61707865, 0x3320646E, 0x79622D32, qpn_prefix};
    std::memcpy(&state[4], key_, sizeof key_);
    std::memcpy(&state[12], address.bytes.data(), 16);
    uint32_t out[16];
    base::chacha20_block(state, out);
    return out[0] != 0 ? out[0] : 1;
  }
  // Seed of hash tables whose keys a peer can choose.
  uint64_t hash_seed() const noexcept { return uint64_t{key_[0]} << 32 | key_[1]; }

 private:
  uint32_t key_[8] = {};
};

}  // namespace weft::srd
