// SPDX-License-Identifier: BSD-3-Clause
// The numbers below a bound in a secret order, each once, without a table: a Feistel network whose
// round function is ChaCha20, walked until it lands below the bound. For names that must neither be
// guessed from others nor come again soon (queue pair numbers).
#pragma once

#include <cstdint>

#include "lib/base/random.hpp"

namespace weft::base {

class Permutation {
 public:
  // Of the numbers 0..count - 1, 0 < count <= 2^31.
  Permutation(uint32_t count, SecureRandom& random) noexcept;
  // Distinct for distinct index < count.
  uint32_t operator()(uint32_t index) const noexcept;
  uint32_t count() const noexcept { return count_; }

 private:
  uint32_t count_;
  uint32_t half_bits_;
  uint32_t key_[8];
};

}  // namespace weft::base
