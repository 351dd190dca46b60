// SPDX-License-Identifier: BSD-3-Clause
// The functions that OpenSSL brings; lib/crypto/library.hpp describes them.
#pragma once

#include "lib/crypto/library.hpp"

namespace weft::crypto {

Result<Key> derive_with_openssl(std::string_view secret, std::string_view use);
Result<std::unique_ptr<Tls>> open_openssl(Side side, const Key& key, std::string_view identity);
Result<std::unique_ptr<Aead>> open_openssl_aead(Cipher cipher, const Key& key);

}  // namespace weft::crypto
