// SPDX-License-Identifier: BSD-3-Clause
// See permutation.hpp. Ten rounds, as FF1 (NIST SP 800-38G) has for small domains.
#include "lib/base/permutation.hpp"

#include <bit>

#include "lib/base/chacha20.hpp"
#include "lib/base/check.hpp"

namespace weft::base {

namespace {
constexpr uint32_t kRounds = 10;
}

Permutation::Permutation(uint32_t count, SecureRandom& random) noexcept
    : count_(count), half_bits_((static_cast<uint32_t>(std::bit_width(count - 1)) + 1) / 2) {
  WEFT_CHECK(count > 0 && count <= 1u << 31);
  for (uint32_t& word : key_) word = random.next32();
}

uint32_t Permutation::operator()(uint32_t index) const noexcept {
  WEFT_DCHECK(index < count_);
  const uint32_t mask = (1u << half_bits_) - 1;
  uint32_t block[16], state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (int i = 0; i < 8; ++i) state[4 + i] = key_[i];
  uint32_t at = index;
  do {  // at most 4 tries on average: the network permutes less than 4 times `count` numbers
    uint32_t left = at >> half_bits_, right = at & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      state[12] = right;
      state[13] = round;
      chacha20_block(state, block);
      const uint32_t mixed = left ^ (block[0] & mask);
      left = right;
      right = mixed;
    }
    at = left << half_bits_ | right;
  } while (at >= count_);
  return at;
}

}  // namespace weft::base
