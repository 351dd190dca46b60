// SPDX-License-Identifier: BSD-3-Clause
// See terms.hpp.
#include "lib/crypto/terms.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/base/socket_gid.hpp"
#include "lib/crypto/secret.hpp"

namespace weft::crypto {

namespace {

// Packets to an address of this host do not leave it.
bool is_on_this_host(const base::SocketAddress& peer) {
  const Gid address = base::gid_of(peer.storage);
  Gid loopback;
  loopback.bytes.back() = 1;
  if (address == loopback || address == Gid{} || address == Gid::from_ipv4(0, 0, 0, 0)) return true;
  if (address.is_ipv4() && address.bytes[12] == 127) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, &freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage own{};
    std::memcpy(&own, each->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (base::gid_of(own) == address) return true;
  }
  return false;
}

// A variable of the environment, unless the process has more rights than its caller.
std::string_view variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr ? value : "";
}

Result<Terms> with_secret(Mode mode, Purpose purpose, const Result<std::string>& secret) {
  WEFT_DCHECK(mode == Mode::job || mode == Mode::user);
  if (!secret) return secret.error();
  const Result<const Library*> library = load_library();
  if (!library) return library.error();
  const Result<Key> key = (*library)->derive(*secret, "weft rendezvous: key of TLS");
  if (!key) return key.error();
  const Result<Key> digest = (*library)->derive(*secret, "weft rendezvous: fingerprint");
  if (!digest) return digest.error();
  WEFT_DCHECK(*key != *digest);  // the fingerprint is sent in clear text
  Terms terms{.mode = mode, .purpose = purpose, .key = *key};
  std::copy_n(digest->begin(), terms.fingerprint.size(), terms.fingerprint.begin());
  return terms;
}

// As seen from the side that has these terms.
std::string describe(uint8_t mode, const std::array<uint8_t, 8>& fingerprint) {
  std::string digits;
  for (const uint8_t byte : fingerprint) {
    constexpr char kDigits[] = "0123456789abcdef";
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  switch (static_cast<Mode>(mode)) {
    case Mode::clear:
      return "clear text (insecure)";
    case Mode::job:
      return "TLS with the secret of fingerprint " + digits + " (WEFT_SECRET)";
    case Mode::user:
      return "TLS with the key of its user, of fingerprint " + digits;
    case Mode::none:
      return "no secret, and sees the other on another host";
  }
  return "terms unknown here";
}

const char* remedy(Mode ours, Mode theirs) {
  if (ours == Mode::clear || theirs == Mode::clear)
    return "say `insecure` on both sides or on none";
  if (ours == Mode::job && theirs == Mode::job) return "give both the same secret in WEFT_SECRET";
  if (ours == Mode::job || theirs == Mode::job) return "give both sides WEFT_SECRET, or none";
  if (ours == Mode::user && theirs == Mode::user)
    return "run both as one user of one host, or give both the same secret in WEFT_SECRET";
  return "give both the same secret in WEFT_SECRET, or say `insecure` on both sides";
}

std::string_view name(uint8_t purpose) {
  switch (static_cast<Purpose>(purpose)) {
    case Purpose::connect:
      return "connect queue pairs";
    case Purpose::store:
      return "reach a store";
  }
  return "do something unknown here";
}

}  // namespace

TermsBytes Terms::bytes() const noexcept {
  return {.magic = kMagic,
          .version = kVersion,
          .mode = static_cast<uint8_t>(mode),
          .purpose = static_cast<uint8_t>(purpose),
          .fingerprint = fingerprint};
}

Result<Terms> terms_for(const Security& security, Purpose purpose,
                        const base::SocketAddress& peer) {
  if (!security.secret.empty())
    return with_secret(Mode::job, purpose, read_secret(security.secret));
  const Terms clear{.mode = Mode::clear, .purpose = purpose};
  if (security.insecure) return clear;
  if (const std::string_view secret = variable("WEFT_SECRET"); !secret.empty())
    return with_secret(Mode::job, purpose, read_secret(secret));
  if (const std::string_view insecure = variable("WEFT_INSECURE");
      !insecure.empty() && insecure != "0")
    return clear;
  if (!is_on_this_host(peer)) return Terms{.mode = Mode::none, .purpose = purpose};
  return with_secret(Mode::user, purpose, read_user_secret());
}

Result<void> check_begin(std::string_view begin) {
  begin = begin.substr(0, sizeof(TermsBytes));
  const TermsBytes ours = Terms().bytes();
  const std::string_view magic(reinterpret_cast<const char*>(&ours), sizeof ours.magic);
  const size_t compared = std::min(begin.size(), magic.size());
  if (begin.substr(0, compared) == magic.substr(0, compared)) return {};
  std::string shown;
  for (const char c : begin) shown += c >= ' ' && c <= '~' ? c : '?';
  return Error{Code::invalid_argument, "the other end is no weft connection: it begins with \"" +
                                           shown + "\"; check host and port"};
}

Result<void> check_terms(const Terms& ours, const TermsBytes& theirs) {
  WEFT_DCHECK(theirs.magic == kMagic);  // check_begin()
  if (theirs.version != kVersion)
    return Error{Code::not_supported,
                 "the peer uses version " + std::to_string(uint16_t{theirs.version}) +
                     " of the connection protocol, this side " + std::to_string(kVersion)};
  if (theirs.mode != static_cast<uint8_t>(ours.mode) || ours.mode == Mode::none ||
      theirs.fingerprint != ours.fingerprint)
    return Error{Code::permission_denied,
                 "the peer has " + describe(theirs.mode, theirs.fingerprint) + ", this side " +
                     describe(static_cast<uint8_t>(ours.mode), ours.fingerprint) + ": " +
                     remedy(ours.mode, static_cast<Mode>(theirs.mode))};
  if (theirs.purpose != static_cast<uint8_t>(ours.purpose))
    return Error{Code::invalid_argument, "the peer wants to " + std::string(name(theirs.purpose)) +
                                             ", this side to " +
                                             std::string(name(static_cast<uint8_t>(ours.purpose))) +
                                             ": check host and port"};
  WEFT_DCHECK(ours.mode != Mode::none);
  return {};
}

Error needs_secret(const std::string& peer) {
  return {Code::permission_denied,
          peer +
              " is not on this host: give both sides the same secret (WEFT_SECRET names a file "
              "of mode 0600), or say `insecure` on both (--insecure, ConnectOptions::security, "
              "WEFT_INSECURE=1)"};
}

}  // namespace weft::crypto
