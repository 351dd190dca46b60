// SPDX-License-Identifier: BSD-3-Clause
// TLS 1.3 by OpenSSL, between two memory BIOs: one cipher suite, an external pre-shared key with
// (EC)DHE, no certificates, no tickets, no early data.
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include <mutex>
#include <string>

#include "lib/base/check.hpp"
#include "providers/crypto/openssl/openssl.hpp"
#include "providers/crypto/openssl/own_context.hpp"

namespace weft::crypto {

namespace {

constexpr const char* kCipherSuite = "TLS_AES_128_GCM_SHA256";
constexpr uint8_t kCipherSuiteCode[] = {0x13, 0x01};
constexpr const char* kGroups = "X25519:P-256";

template <class T, void (*kFree)(T*)>
struct FreeBy {
  void operator()(T* object) const noexcept { kFree(object); }
};
using Context = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX, SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, FreeBy<SSL, SSL_free>>;
using SessionState = std::unique_ptr<SSL_SESSION, FreeBy<SSL_SESSION, SSL_SESSION_free>>;

// The last error of this thread, whose queue is emptied.
Error error_of(std::string_view what) {
  const unsigned long last = ERR_peek_last_error();
  bool no_memory = last == 0;
  std::string reason;
  if (const char* const text = ERR_reason_error_string(last)) reason = text;
  while (const unsigned long each = ERR_get_error())
    no_memory = no_memory || ERR_GET_REASON(each) == ERR_R_MALLOC_FAILURE;
  if (no_memory) return {Code::no_memory, "out of memory"};
  return {Code::permission_denied, std::string(what) + " (" + reason + ")"};
}

class OpenSslTls;
int client_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* size,
               SSL_SESSION** session);
int server_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session);

Context make_context(Side side) {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  const bool connects = side == Side::connecting;
  Context made(
      SSL_CTX_new_ex(own_context(), nullptr, connects ? TLS_client_method() : TLS_server_method()));
  SSL_CTX* const context = made.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, kCipherSuite) != 1 ||
      SSL_CTX_set1_groups_list(context, kGroups) != 1 || SSL_CTX_set_num_tickets(context, 0) != 1)
    return nullptr;
  SSL_CTX_clear_options(context, SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_early_data(context, 0);
  // A server without the key could only show a certificate, and none is trusted.
  SSL_CTX_set_verify(context, connects ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (connects)
    SSL_CTX_set_psk_use_session_callback(context, &client_key);
  else
    SSL_CTX_set_psk_find_session_callback(context, &server_key);
  return made;
}

// Made at the first use, and again if there was no memory for it.
SSL_CTX* context_of(Side side) {
  static std::mutex mutex;
  static SSL_CTX* contexts[2] = {};
  const std::lock_guard lock(mutex);
  SSL_CTX*& context = contexts[static_cast<size_t>(side)];
  if (context == nullptr) context = make_context(side).release();
  return context;
}

class OpenSslTls final : public Tls {
 public:
  OpenSslTls(Side side, const Key& key, std::string_view identity)
      : side_(side), key_(key), identity_(identity) {}
  ~OpenSslTls() override { OPENSSL_cleanse(key_.data(), key_.size()); }

  Result<void> open() {
    ERR_clear_error();
    SSL_CTX* const context = context_of(side_);
    ssl_.reset(context != nullptr ? SSL_new(context) : nullptr);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    if (!ssl_ || in_ == nullptr || out_ == nullptr) {
      BIO_free(in_);
      BIO_free(out_);
      return error_of("OpenSSL cannot be used");
    }
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(ssl_.get(), in_, out_);
    SSL_set_app_data(ssl_.get(), this);
    side_ == Side::connecting ? SSL_set_connect_state(ssl_.get())
                              : SSL_set_accept_state(ssl_.get());
    return {};
  }

  Result<void> receive(std::span<const std::byte> received, std::string& clear,
                       std::string& out) override {
    ERR_clear_error();
    const int size = static_cast<int>(received.size());
    if (size > 0 && BIO_write(in_, received.data(), size) != size)
      return error_of("OpenSSL takes no more");
    const Result<void> done = established_ ? decrypt(clear) : continue_handshake(clear);
    take_out(out);
    return done;
  }

  Result<void> send(std::span<const std::byte> clear, std::string& out) override {
    WEFT_DCHECK(established_);
    if (clear.empty()) return {};
    ERR_clear_error();
    size_t written = 0;
    if (SSL_write_ex(ssl_.get(), clear.data(), clear.size(), &written) != 1)
      return error_of("TLS cannot encrypt");
    WEFT_DCHECK(written == clear.size());
    take_out(out);
    return {};
  }

  bool established() const noexcept override { return established_; }

  // What the callbacks of OpenSSL answer.
  const std::string& identity() const noexcept { return identity_; }
  SSL_SESSION* make_session() const {
    SessionState made(SSL_SESSION_new());
    const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl_.get(), kCipherSuiteCode);
    if (!made || cipher == nullptr ||
        SSL_SESSION_set1_master_key(made.get(), key_.data(), key_.size()) != 1 ||
        SSL_SESSION_set_cipher(made.get(), cipher) != 1 ||
        SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION) != 1)
      return nullptr;
    return made.release();
  }

 private:
  Result<void> continue_handshake(std::string& clear) {
    const int done = SSL_do_handshake(ssl_.get());
    if (done != 1) {
      if (SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ) return {};
      return error_of(
          "the TLS handshake failed: the peer has another secret, or bytes were changed or "
          "replayed on the way");
    }
    if (SSL_session_reused(ssl_.get()) != 1)
      return Error{Code::permission_denied, "the TLS handshake did not use the secret"};
    established_ = true;
    return decrypt(clear);
  }

  Result<void> decrypt(std::string& clear) {
    char part[4096];
    for (;;) {
      size_t size = 0;
      const int done = SSL_read_ex(ssl_.get(), part, sizeof part, &size);
      if (done == 1) {
        clear.append(part, size);
        continue;
      }
      const int why = SSL_get_error(ssl_.get(), done);
      if (why == SSL_ERROR_WANT_READ) return {};
      if (why == SSL_ERROR_ZERO_RETURN)
        return Error{Code::disconnected, "the peer closed the connection"};
      return error_of("a TLS record is wrong: bytes were changed or replayed on the way");
    }
  }

  void take_out(std::string& out) {
    const size_t before = out.size();
    const size_t size = BIO_ctrl_pending(out_);
    out.resize(before + size);
    if (size > 0) BIO_read(out_, out.data() + before, static_cast<int>(size));
  }

  const Side side_;
  Key key_;
  const std::string identity_;
  Connection ssl_;
  BIO* in_ = nullptr;   // owned by ssl_
  BIO* out_ = nullptr;  // so too
  bool established_ = false;
};

OpenSslTls& tls_of(const SSL* ssl) { return *static_cast<OpenSslTls*>(SSL_get_app_data(ssl)); }

// With a retry of the server, `digest` is that of the suite it has chosen: there is but one.
int client_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size,
               SSL_SESSION** session) {
  const OpenSslTls& tls = tls_of(ssl);
  *identity = reinterpret_cast<const unsigned char*>(tls.identity().data());
  *size = tls.identity().size();
  *session = tls.make_session();
  return *session != nullptr ? 1 : 0;
}

// Without a session the handshake fails, as there is no certificate.
int server_key(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  const OpenSslTls& tls = tls_of(ssl);
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(identity), size) != tls.identity()) return 1;
  *session = tls.make_session();
  return *session != nullptr ? 1 : 0;
}

}  // namespace

OSSL_LIB_CTX* own_context() {
  static OSSL_LIB_CTX* const made = OSSL_LIB_CTX_new();
  return made;
}

Result<std::unique_ptr<Tls>> open_openssl(Side side, const Key& key, std::string_view identity) {
  auto made = std::make_unique<OpenSslTls>(side, key, identity);
  if (const Result<void> opened = made->open(); !opened) return opened.error();
  return std::unique_ptr<Tls>(std::move(made));
}

Result<Key> derive_with_openssl(std::string_view secret, std::string_view use) {
  ERR_clear_error();
  const std::unique_ptr<EVP_KDF, FreeBy<EVP_KDF, EVP_KDF_free>> hkdf(
      EVP_KDF_fetch(own_context(), "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, FreeBy<EVP_KDF_CTX, EVP_KDF_CTX_free>> context(
      hkdf ? EVP_KDF_CTX_new(hkdf.get()) : nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<char*>(secret.data()),
                                        secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(use.data()),
                                        use.size()),
      OSSL_PARAM_construct_end()};
  Key key{};
  if (!context || EVP_KDF_derive(context.get(), key.data(), key.size(), parameters) != 1)
    return error_of("OpenSSL derives no key");
  return key;
}

}  // namespace weft::crypto
