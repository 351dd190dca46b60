// SPDX-License-Identifier: BSD-3-Clause
// A secret permutation of the numbers below a bound, without a table: a Feistel network with
// ChaCha20 as round function, with cycle walking. For queue pair numbers, which must not be
// guessable from others nor be reused soon.
#pragma once

#include <cstdint>

#include "lib/base/random.hpp"

namespace weft::base {

class Permutation {
 public:
  // A permutation of 0..count - 1, 0 < count <= 2^31.
  Permutation(uint32_t count, SecureRandom& random) noexcept;
  // The image of `index` < count.
  uint32_t operator()(uint32_t index) const noexcept;
  uint32_t count() const noexcept { return count_; }

 private:
  uint32_t count_;
  uint32_t half_bits_;
  uint32_t key_[8];
};

}  // namespace weft::base
