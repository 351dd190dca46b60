// SPDX-License-Identifier: BSD-3-Clause
// A datagram that asks a host whether a process has the peer's UDP port. A device that gets one
// drops it without a count. If no process has the port, the host answers with ICMP port
// unreachable, which quotes the datagram: who repeats its nonce has seen it. Layout: SACK.md (RC)
// and SRD.md; both have the destination where a BTH has it, and the nonce behind 12 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/wire/srd_headers.hpp"
#include "weft/types.hpp"

namespace weft::wire {

class LivenessRequest {
 public:
  static LivenessRequest of_rc(QpNum to, uint64_t nonce) noexcept {
    return {kRcOpcode, 0, kRcLength, to, nonce};
  }
  static LivenessRequest of_srd(QpNum to, uint64_t nonce) noexcept {
    return {kSrdOpcode, kSrdVersion << 4, kSrdLength, to, nonce};
  }
  std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), length_}; }

  static bool is_of_rc(const std::byte* frame, uint32_t length) noexcept {
    return length == kRcLength && frame[0] == std::byte{kRcOpcode};
  }
  static bool is_of_srd(const std::byte* frame, uint32_t length) noexcept {
    return length == kSrdLength && frame[0] == std::byte{kSrdOpcode};
  }

 private:
  static constexpr uint8_t kRcOpcode = 0xC1;  // of the manufacturers' range, as that of SACK.md
  static constexpr uint8_t kSrdOpcode = 24;
  static constexpr uint32_t kRcLength = 20, kSrdLength = sizeof(SrdBase);
  static constexpr uint32_t kDestination = 5, kNonce = 12;

  LivenessRequest(uint8_t opcode, uint8_t version, uint32_t length, QpNum to,
                  uint64_t nonce) noexcept
      : length_(length) {
    bytes_[0] = std::byte{opcode};
    bytes_[1] = std::byte{version};
    for (uint32_t i = 0; i < 3; ++i)
      bytes_[kDestination + i] = static_cast<std::byte>(to.value >> (16 - 8 * i));
    std::memcpy(&bytes_[kNonce], &nonce, sizeof nonce);
  }

  std::array<std::byte, kSrdLength> bytes_{};
  uint32_t length_;
};

}  // namespace weft::wire
