# SPDX-License-Identifier: BSD-3-Clause
# OpenSSL 3.0 and newer: its headers, and libssl and libcrypto to link the module with.
set(CRYPTO_MODULE libweft-crypto)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(OPENSSL QUIET openssl>=3.0)
endif()
if(OPENSSL_FOUND)
  set(CRYPTO_LIBRARIES ssl crypto)
  set(CRYPTO_INCLUDES ${OPENSSL_INCLUDE_DIRS})
else()
  set(CRYPTO_MISSING "libssl: apt-get install libssl-dev")
endif()
