// SPDX-License-Identifier: BSD-3-Clause
// TLS, key derivation and authenticated encryption of OpenSSL 3.0.
#include "lib/crypto/library.hpp"
#include "providers/crypto/openssl/openssl.hpp"

namespace weft::crypto {

static consteval Library describe() {
  return {.derive = &derive_with_openssl, .open = &open_openssl, .open_aead = &open_openssl_aead};
}
WEFT_CRYPTO(openssl, describe());

}  // namespace weft::crypto
