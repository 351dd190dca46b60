// SPDX-License-Identifier: BSD-3-Clause
// Protected packets: what authenticated encryption adds to a packet of SRD, as plain structs of
// big-endian integers. SRD.md, "protected", documents every byte and what it means; this file is
// its translation. The base header stays in clear, with srd_flag::kProtected; behind it come
// SrdProtection, the sealed rest of the packet, and a tag.
#pragma once

#include <array>

#include "lib/wire/srd_headers.hpp"

namespace weft::wire {

// Opcodes by which two endpoints agree on keys. No engine sees them.
enum class SrdKeyOpcode : uint8_t {
  request = 24,              // for an association to the receiver
  grant = 25,                // of one
  unknown_association = 26,  // a packet came under a key that the receiver does not have
};

inline constexpr uint32_t kTagLength = 16;

// Behind the base header of a packet with payload: which key, and which packet of all under it.
struct SrdProtection {
  base::Be64 association;
  base::Be64 counter;
};
static_assert(sizeof(SrdProtection) == 16 && alignof(SrdProtection) == 1);
inline constexpr uint32_t kProtectionLength = sizeof(SrdProtection) + kTagLength;

using KeyNonce = std::array<uint8_t, 16>;

// What a grant tells, sealed.
struct SrdGranted {
  base::Be64 association;
  uint8_t cipher = 0;
  std::array<uint8_t, 7> reserved{};
  std::array<uint8_t, 32> key{};
};
static_assert(sizeof(SrdGranted) == 48 && alignof(SrdGranted) == 1);

// Behind the base header of a request: as long as a grant, so that it can have an answer.
struct SrdKeyRequest {
  KeyNonce nonce{};  // of the requester
  KeyNonce unused{};
  std::array<uint8_t, sizeof(SrdGranted)> padding{};
  std::array<uint8_t, kTagLength> tag{};
};

// Behind the base header of a grant.
struct SrdKeyGrant {
  KeyNonce nonce{};  // of the request
  KeyNonce own{};    // of the granter
  std::array<uint8_t, sizeof(SrdGranted)> sealed{};
  std::array<uint8_t, kTagLength> tag{};
};
static_assert(sizeof(SrdKeyRequest) == sizeof(SrdKeyGrant) && sizeof(SrdKeyGrant) == 96);

// Behind the base header of `unknown_association`: what the packet had there.
struct SrdUnknownAssociation {
  SrdProtection of;
  std::array<uint8_t, kTagLength> tag{};
};
// A packet has at least as many bytes.
static_assert(sizeof(SrdUnknownAssociation) == kProtectionLength);

}  // namespace weft::wire
