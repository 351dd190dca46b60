// SPDX-License-Identifier: BSD-3-Clause
// On which terms this process takes part in a rendezvous with a peer, and the first 16 bytes by
// which each side tells the other its terms:
//
//   4  "WEFT"
//   2  version
//   1  mode: clear text, the secret of a job, that of a user, none that would do
//   1  purpose: to set up queue pairs, a store
//   8  fingerprint of the secret; zeros in clear text
//
// Each side accepts exactly its own terms from the other, so these bytes need no other protection;
// in TLS they are the identity of the key too, and so a part of the transcript.
//= threat:A34
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/bytes.hpp"
#include "lib/base/tcp.hpp"
#include "lib/crypto/library.hpp"
#include "weft/security.hpp"

namespace weft::crypto {

inline constexpr uint32_t kMagic = 0x57454654;  // "WEFT"
inline constexpr uint16_t kVersion = 3;         // 2 and before: without terms

enum class Mode : uint8_t { clear, job, user, none };
enum class Purpose : uint8_t { connect = 1, store = 2 };

struct TermsBytes {
  base::Be32 magic;
  base::Be16 version;
  uint8_t mode = 0;
  uint8_t purpose = 0;
  std::array<uint8_t, 8> fingerprint{};
};
static_assert(sizeof(TermsBytes) == 16);

struct Terms {
  Mode mode = Mode::none;
  Purpose purpose = Purpose::connect;
  Key key{};  // of TLS; zeros in clear text
  std::array<uint8_t, 8> fingerprint{};

  bool uses_tls() const noexcept { return mode == Mode::job || mode == Mode::user; }
  TermsBytes bytes() const noexcept;
};

// The terms for a peer at `peer`. Mode `none` if it is on another host and neither a secret nor
// `insecure` is given. Errors: those of the secret and of the module.
Result<Terms> terms_for(const Security& security, Purpose purpose, const base::SocketAddress& peer);

// Why a peer that began with these bytes is no weft. Fewer than `TermsBytes` may be here: one of
// another protocol may wait for an answer to its own.
Result<void> check_begin(std::string_view begin);

// Why a peer of weft with the terms `theirs` is no peer; names both sides' and the remedy. Errors:
// invalid_argument, not_supported (version), permission_denied.
Result<void> check_terms(const Terms& ours, const TermsBytes& theirs);

// What a process needs to reach a peer at which it can only be on the terms `none`.
Error needs_secret(const std::string& peer);

}  // namespace weft::crypto
