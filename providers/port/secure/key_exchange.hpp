// SPDX-License-Identifier: BSD-3-Clause
// The packets by which two endpoints that have the same secret agree on keys, as functions of
// bytes: a request, the grant that answers it, and what says that an association is not known. Each
// is sealed with a key of its own, derived from the secret, the addresses of both, and random
// numbers that occur once. SRD.md, "protected", has the exchange.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "lib/crypto/library.hpp"
#include "providers/port/secure/layout.hpp"

namespace weft::secure {

// What a receiver gives to one sender.
struct Granted {
  uint64_t association = 0;
  crypto::Cipher cipher = crypto::Cipher::aes_128_gcm;
  crypto::Key key{};
};

// Functions that write return false if the cryptographic library has failed. May throw bad_alloc.
class KeyExchange {
 public:
  // `secret`: of both sides, and for nothing else.
  KeyExchange(const crypto::Library& library, const crypto::Key& secret, const Layout& layout)
      : library_(library), secret_(text_of(secret)), layout_(layout) {}

  uint32_t request_length() const noexcept {
    return layout_.header + uint32_t{sizeof(wire::SrdKeyRequest)};
  }
  uint32_t unknown_length() const noexcept {
    return layout_.header + uint32_t{sizeof(wire::SrdUnknownAssociation)};
  }

  // request_length() bytes.
  bool write_request(const Parties& parties, const wire::KeyNonce& nonce, std::byte* packet) const;
  // The nonce, if the sender has the secret.
  std::optional<wire::KeyNonce> read_request(const Parties& parties,
                                             std::span<const std::byte> packet) const;
  // request_length() bytes. `own`: random, for this grant only.
  bool write_grant(const Parties& parties, const wire::KeyNonce& request, const wire::KeyNonce& own,
                   const Granted& granted, std::byte* packet) const;
  // Of an answer to the request with that nonce.
  std::optional<Granted> read_grant(const Parties& parties, const wire::KeyNonce& request,
                                    std::span<const std::byte> packet) const;
  // unknown_length() bytes. `of`: of the packet that came.
  bool write_unknown(const Parties& parties, const wire::SrdProtection& of,
                     std::byte* packet) const;
  std::optional<wire::SrdProtection> read_unknown(const Parties& parties,
                                                  std::span<const std::byte> packet) const;

  // A key that only who knows `master` can derive.
  std::optional<crypto::Key> derive(const crypto::Key& master, std::string_view label,
                                    std::span<const std::byte> what) const;
  std::unique_ptr<crypto::Aead> open(crypto::Cipher cipher, const crypto::Key& key) const;

 private:
  static std::string text_of(const crypto::Key& key) {
    return {reinterpret_cast<const char*>(key.data()), key.size()};
  }
  void write_header(const Parties& parties, uint8_t opcode, std::byte* packet) const noexcept;
  std::unique_ptr<crypto::Aead> aead_for(std::string_view label, const Parties& parties,
                                         std::span<const std::byte> once) const;
  bool seal(crypto::Aead* aead, std::byte* packet, uint32_t begin, uint32_t length) const;
  bool unseal(crypto::Aead* aead, std::span<const std::byte> packet, uint32_t begin,
              std::byte* out) const;

  const crypto::Library& library_;
  const std::string secret_;
  const Layout layout_;
};

}  // namespace weft::secure
