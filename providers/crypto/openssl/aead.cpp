// SPDX-License-Identifier: BSD-3-Clause
// Authenticated encryption by OpenSSL: a context for each direction of a key, which keeps the
// expanded key, so that a packet costs its bytes and five calls.
#include <openssl/evp.h>

#include <algorithm>

#include "lib/base/check.hpp"
#include "providers/crypto/openssl/openssl.hpp"
#include "providers/crypto/openssl/own_context.hpp"

namespace weft::crypto {

namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const noexcept { EVP_CIPHER_CTX_free(context); }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

unsigned char* bytes_of(std::byte* at) noexcept { return reinterpret_cast<unsigned char*>(at); }
const unsigned char* bytes_of(const std::byte* at) noexcept {
  return reinterpret_cast<const unsigned char*>(at);
}

// Fetched once, since that takes longer than a packet. Never freed, as the context that they are
// of.
const EVP_CIPHER* find_cipher(Cipher cipher) {
  static EVP_CIPHER* const kAes = EVP_CIPHER_fetch(own_context(), "AES-128-GCM", nullptr);
  static EVP_CIPHER* const kChaCha = EVP_CIPHER_fetch(own_context(), "ChaCha20-Poly1305", nullptr);
  return cipher == Cipher::aes_128_gcm ? kAes : kChaCha;
}

class OpenSslAead final : public Aead {
 public:
  Result<void> start(Cipher cipher, const Key& key) {
    const EVP_CIPHER* const kind = find_cipher(cipher);
    if (kind == nullptr)
      return Error{Code::not_supported, "this OpenSSL has no AES-128-GCM or ChaCha20-Poly1305"};
    WEFT_DCHECK(static_cast<size_t>(EVP_CIPHER_get_key_length(kind)) <= key.size());
    for (CipherContext* const context : {&seals_, &opens_}) {
      context->reset(EVP_CIPHER_CTX_new());
      if (*context == nullptr || EVP_CipherInit_ex2(context->get(), kind, key.data(), nullptr,
                                                    context == &seals_ ? 1 : 0, nullptr) != 1)
        return Error{Code::no_memory, "out of memory for a key"};
      WEFT_DCHECK(EVP_CIPHER_CTX_get_iv_length(context->get()) == int{sizeof(Nonce)});
    }
    return {};
  }

  bool seal(const Nonce& nonce, std::span<const std::byte> associated,
            std::span<const std::byte> clear, std::byte* out) noexcept override {
    EVP_CIPHER_CTX* const context = seals_.get();
    unsigned char* const to = bytes_of(out);
    int size = 0;
    return EVP_EncryptInit_ex2(context, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
           EVP_EncryptUpdate(context, nullptr, &size, bytes_of(associated.data()),
                             static_cast<int>(associated.size())) == 1 &&
           (clear.empty() || EVP_EncryptUpdate(context, to, &size, bytes_of(clear.data()),
                                               static_cast<int>(clear.size())) == 1) &&
           EVP_EncryptFinal_ex(context, to + clear.size(), &size) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kAeadTag, to + clear.size()) == 1;
  }

  bool open(const Nonce& nonce, std::span<const std::byte> associated,
            std::span<const std::byte> sealed, std::byte* out) noexcept override {
    if (sealed.size() < kAeadTag) return false;
    EVP_CIPHER_CTX* const context = opens_.get();
    const size_t length = sealed.size() - kAeadTag;
    unsigned char tag[kAeadTag];
    std::copy_n(bytes_of(sealed.data()) + length, sizeof tag, tag);
    unsigned char* const to = bytes_of(out);
    int size = 0;
    return EVP_DecryptInit_ex2(context, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kAeadTag, tag) == 1 &&
           EVP_DecryptUpdate(context, nullptr, &size, bytes_of(associated.data()),
                             static_cast<int>(associated.size())) == 1 &&
           (length == 0 || EVP_DecryptUpdate(context, to, &size, bytes_of(sealed.data()),
                                             static_cast<int>(length)) == 1) &&
           EVP_DecryptFinal_ex(context, to + length, &size) == 1;
  }

 private:
  CipherContext seals_, opens_;
};

}  // namespace

Result<std::unique_ptr<Aead>> open_openssl_aead(Cipher cipher, const Key& key) {
  auto made = std::make_unique<OpenSslAead>();
  if (const Result<void> started = made->start(cipher, key); !started) return started.error();
  return std::unique_ptr<Aead>(std::move(made));
}

}  // namespace weft::crypto
