// SPDX-License-Identifier: BSD-3-Clause
// The ChaCha20 block function (RFC 8439 2.3), separate from SecureRandom so that it can be tested
// against the RFC's vectors.
#pragma once

#include <cstdint>

namespace weft::base {

// Writes the 16 words of the key stream block of `state` (constants, key, counter, nonce) to `out`.
void chacha20_block(const uint32_t (&state)[16], uint32_t (&out)[16]) noexcept;

}  // namespace weft::base
