// SPDX-License-Identifier: BSD-3-Clause
// What both ends of an association compute of a packet with payload: the associated data, and the
// nonce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/crypto/library.hpp"
#include "providers/port/secure/layout.hpp"

namespace weft::secure {

// The header, what switches may write left out, and which key and counter the packet is under.
class PacketData {
 public:
  explicit PacketData(const Layout& layout, const std::byte* packet) noexcept
      : size_(layout.header + uint32_t{sizeof(wire::SrdProtection)}) {
    std::memcpy(bytes_, packet, size_);
    bytes_[kMaskedAt] = std::byte{0};
  }
  std::span<const std::byte> span() const noexcept { return {bytes_, size_}; }

 private:
  std::byte bytes_[kLargestHeader + sizeof(wire::SrdProtection)];
  uint32_t size_;
};

// One for each counter of an association.
inline crypto::Nonce nonce_of(uint64_t counter) noexcept {
  crypto::Nonce nonce{};
  const base::Be64 bytes = counter;
  std::memcpy(nonce.data() + nonce.size() - sizeof bytes, &bytes, sizeof bytes);
  return nonce;
}

}  // namespace weft::secure
