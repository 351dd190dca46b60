// SPDX-License-Identifier: BSD-3-Clause
// Random number generators. SecureRandom is a CSPRNG for keys, QPNs and PSNs: earlier outputs do
// not reveal later ones. Random is a small fast generator for simulations and jitter, reproducible
// by its seed. Both are passed as arguments; there is no global generator.
#pragma once

#include <cstdint>

namespace weft::base {

// xoshiro256** seeded by splitmix64. Not secret.
class Random {
 public:
  explicit Random(uint64_t seed) noexcept;
  uint64_t next() noexcept;
  // Uniform in [0, bound), bound > 0, without modulo bias.
  uint64_t below(uint64_t bound) noexcept;
  // True with probability `parts_per_million` / 10^6.
  bool chance_ppm(uint32_t parts_per_million) noexcept {
    return below(1'000'000) < parts_per_million;
  }

 private:
  uint64_t s_[4];
};

// ChaCha20 in counter mode, seeded from the kernel, or from a given seed in simulations, which
// makes it reproducible and not secret.
class SecureRandom {
 public:
  SecureRandom() noexcept;                        // getrandom(2)
  explicit SecureRandom(uint64_t seed) noexcept;  // simulations and tests
  uint32_t next32() noexcept;
  uint64_t next64() noexcept;
  uint32_t below(uint32_t bound) noexcept;

 private:
  void refill() noexcept;
  uint32_t key_[8];
  uint64_t counter_ = 0;
  uint32_t block_[16];
  uint32_t used_ = 16;
};

}  // namespace weft::base
