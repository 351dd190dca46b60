// SPDX-License-Identifier: BSD-3-Clause
// See random.hpp: xoshiro256** (Blackman and Vigna), four words of state, for simulations; ChaCha20
// (RFC 8439) for keys and numbers that must not be guessable.
#include "lib/base/random.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>

#include "lib/base/chacha20.hpp"
#include "lib/base/check.hpp"
#include "lib/base/virtual_process.hpp"

namespace weft::base {
namespace {

__extension__ using Wide = unsigned __int128;

// splitmix64: turns any seed, 0 included, into well mixed words.
uint64_t split_mix(uint64_t& state) noexcept {
  uint64_t z = state += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Fills `out` from the kernel; aborts without a source of randomness, since keys would be
// guessable.
void fill_from_kernel(void* out, size_t size) noexcept {
  auto* at = static_cast<unsigned char*>(out);
  int device = -1;
  while (size > 0) {
    ssize_t n = device < 0 ? getrandom(at, size, 0) : read(device, at, size);
    if (n > 0) {
      at += n;
      size -= static_cast<size_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else {
      // Old kernels and some system call filters have no getrandom.
      WEFT_CHECK(device < 0);
      device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
      WEFT_CHECK(device >= 0);
    }
  }
  if (device >= 0) close(device);
}

void quarter_round(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) noexcept {
  a += b, d = std::rotl(d ^ a, 16);
  c += d, b = std::rotl(b ^ c, 12);
  a += b, d = std::rotl(d ^ a, 8);
  c += d, b = std::rotl(b ^ c, 7);
}

}  // namespace

Random::Random(uint64_t seed) noexcept {
  for (uint64_t& word : s_) word = split_mix(seed);
}

uint64_t Random::next() noexcept {
  const uint64_t result = std::rotl(s_[1] * 5, 7) * 9;
  const uint64_t shifted = s_[1] << 17;
  s_[2] ^= s_[0];
  s_[3] ^= s_[1];
  s_[1] ^= s_[2];
  s_[0] ^= s_[3];
  s_[2] ^= shifted;
  s_[3] = std::rotl(s_[3], 45);
  return result;
}

// The high half of next() * bound is uniform if products whose low half is below 2^64 mod bound are
// rejected (Lemire 2019). The division is executed with probability bound / 2^64.
uint64_t Random::below(uint64_t bound) noexcept {
  WEFT_DCHECK(bound > 0);
  Wide product = static_cast<Wide>(next()) * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t surplus = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < surplus) product = static_cast<Wide>(next()) * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

namespace {
constinit thread_local bool from_seed __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local uint64_t next_seed __attribute__((tls_model("initial-exec"))) = 0;
}  // namespace

void draw_secure_numbers_from(uint64_t seed) noexcept {
  from_seed = true;
  next_seed = seed;
}

SecureRandom::SecureRandom() noexcept {
  if (from_seed)
    *this = SecureRandom(split_mix(next_seed));
  else
    fill_from_kernel(key_, sizeof key_);
}

SecureRandom::SecureRandom(uint64_t seed) noexcept {
  for (size_t i = 0; i < 8; i += 2) {
    const uint64_t word = split_mix(seed);
    key_[i] = static_cast<uint32_t>(word);
    key_[i + 1] = static_cast<uint32_t>(word >> 32);
  }
}

uint32_t SecureRandom::next32() noexcept {
  if (used_ == 16) refill();
  const uint32_t value = block_[used_];
  block_[used_++] = 0;  // outputs are not kept in memory
  return value;
}

uint64_t SecureRandom::next64() noexcept {
  const uint64_t low = next32();
  return low | static_cast<uint64_t>(next32()) << 32;
}

uint32_t SecureRandom::below(uint32_t bound) noexcept {
  WEFT_DCHECK(bound > 0);
  uint64_t product = static_cast<uint64_t>(next32()) * bound;
  if (static_cast<uint32_t>(product) < bound) {
    const uint32_t surplus = (0 - bound) % bound;
    while (static_cast<uint32_t>(product) < surplus)
      product = static_cast<uint64_t>(next32()) * bound;
  }
  return static_cast<uint32_t>(product >> 32);
}

// The counter takes two words and the nonce is zero: 2^64 blocks under one key.
void SecureRandom::refill() noexcept {
  const uint32_t state[16] = {0x61707865,
                              0x3320646E,
                              0x79622D32,
                              0x6B206574,
                              key_[0],
                              key_[1],
                              key_[2],
                              key_[3],
                              key_[4],
                              key_[5],
                              key_[6],
                              key_[7],
                              static_cast<uint32_t>(counter_),
                              static_cast<uint32_t>(counter_ >> 32),
                              0,
                              0};
  chacha20_block(state, block_);
  ++counter_;
  used_ = 0;
}

void chacha20_block(const uint32_t (&state)[16], uint32_t (&out)[16]) noexcept {
  for (size_t i = 0; i < 16; ++i) out[i] = state[i];
  for (int double_round = 0; double_round < 10; ++double_round) {
    for (size_t i = 0; i < 4; ++i) quarter_round(out[i], out[i + 4], out[i + 8], out[i + 12]);
    for (size_t i = 0; i < 4; ++i)
      quarter_round(out[i], out[4 + (i + 1) % 4], out[8 + (i + 2) % 4], out[12 + (i + 3) % 4]);
  }
  for (size_t i = 0; i < 16; ++i) out[i] += state[i];
}

}  // namespace weft::base
