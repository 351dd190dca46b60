// SPDX-License-Identifier: BSD-3-Clause
// OpenSSL has a library context of its own here, so that openssl.cnf and what the program does with
// OpenSSL have no effect on it.
#pragma once

#include <openssl/types.h>

namespace weft::crypto {

// Never freed: connections may end while the process does. Null: no memory.
OSSL_LIB_CTX* own_context();

}  // namespace weft::crypto
