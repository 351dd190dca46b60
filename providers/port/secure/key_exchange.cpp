// SPDX-License-Identifier: BSD-3-Clause
// See key_exchange.hpp.
#include "providers/port/secure/key_exchange.hpp"

#include <algorithm>
#include <array>

#include "lib/base/check.hpp"

namespace weft::secure {

namespace {

constexpr size_t kMostAssociated = kLargestHeader + sizeof(wire::SrdKeyRequest) - wire::kTagLength;

// All that precedes the sealed bytes of `packet`, with what switches may write left out.
struct Associated {
  Associated(const std::byte* packet, size_t length) noexcept : size(length) {
    WEFT_DCHECK(length <= bytes.size() && length > kMaskedAt);
    std::copy_n(packet, length, bytes.begin());
    bytes[kMaskedAt] = std::byte{0};
  }
  std::span<const std::byte> span() const noexcept { return {bytes.data(), size}; }

  std::array<std::byte, kMostAssociated> bytes;
  size_t size;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
  return std::as_bytes(std::span<const T>(&value, 1));
}

void append(std::string& text, std::span<const std::byte> bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

std::optional<crypto::Key> KeyExchange::derive(const crypto::Key& master, std::string_view label,
                                               std::span<const std::byte> what) const {
  std::string use(label);
  append(use, what);
  const Result<crypto::Key> key = library_.derive(text_of(master), use);
  if (!key) return std::nullopt;
  return *key;
}

std::unique_ptr<crypto::Aead> KeyExchange::open(crypto::Cipher cipher,
                                                const crypto::Key& key) const {
  Result<std::unique_ptr<crypto::Aead>> opened = library_.open_aead(cipher, key);
  return opened ? std::move(*opened) : nullptr;
}

// Of one packet: `once` occurs in no other of that label between the parties.
std::unique_ptr<crypto::Aead> KeyExchange::aead_for(std::string_view label, const Parties& parties,
                                                    std::span<const std::byte> once) const {
  std::string use = "weft data path: ";
  use += label;
  for (const Endpoint* const end : {&parties.from, &parties.to}) {
    append(use, bytes_of(end->address));
    append(use, bytes_of(end->prefix));
  }
  append(use, once);
  const Result<crypto::Key> key = library_.derive(secret_, use);
  return key ? open(crypto::Cipher::aes_128_gcm, *key) : nullptr;
}

void KeyExchange::write_header(const Parties& parties, uint8_t opcode,
                               std::byte* packet) const noexcept {
  std::fill_n(packet, layout_.header, std::byte{0});
  packet[0] = std::byte{opcode};
  packet[1] = std::byte{layout_.version};
  packet[layout_.mark_at] |= std::byte{layout_.mark};
  packet[kDestinationAt] = std::byte{parties.to.prefix};
  packet[layout_.source_at] = std::byte{parties.from.prefix};
}

// Seals `length` bytes of the packet from `begin` on, in their place; the tag follows them.
bool KeyExchange::seal(crypto::Aead* aead, std::byte* packet, uint32_t begin,
                       uint32_t length) const {
  if (aead == nullptr) return false;
  std::array<std::byte, sizeof(wire::SrdGranted)> clear;
  WEFT_DCHECK(length <= clear.size());
  std::copy_n(packet + begin, length, clear.begin());
  return aead->seal({}, Associated(packet, begin).span(), {clear.data(), length}, packet + begin);
}

// The bytes from `begin` to the end, tag included.
bool KeyExchange::unseal(crypto::Aead* aead, std::span<const std::byte> packet, uint32_t begin,
                         std::byte* out) const {
  WEFT_DCHECK(begin < packet.size());
  return aead != nullptr &&
         aead->open({}, Associated(packet.data(), begin).span(), packet.subspan(begin), out);
}

bool KeyExchange::write_request(const Parties& parties, const wire::KeyNonce& nonce,
                                std::byte* packet) const {
  write_header(parties, layout_.request, packet);
  wire::SrdKeyRequest request;
  request.nonce = nonce;
  std::memcpy(packet + layout_.header, &request, sizeof request);
  const std::unique_ptr<crypto::Aead> aead = aead_for("request", parties, bytes_of(nonce));
  return seal(aead.get(), packet, request_length() - wire::kTagLength, 0);
}

std::optional<wire::KeyNonce> KeyExchange::read_request(const Parties& parties,
                                                        std::span<const std::byte> packet) const {
  if (packet.size() != request_length()) return std::nullopt;
  wire::SrdKeyRequest request;
  std::memcpy(&request, packet.data() + layout_.header, sizeof request);
  const std::unique_ptr<crypto::Aead> aead = aead_for("request", parties, bytes_of(request.nonce));
  std::byte none;
  if (!unseal(aead.get(), packet, request_length() - wire::kTagLength, &none)) return std::nullopt;
  return request.nonce;
}

bool KeyExchange::write_grant(const Parties& parties, const wire::KeyNonce& request,
                              const wire::KeyNonce& own, const Granted& granted,
                              std::byte* packet) const {
  write_header(parties, layout_.grant, packet);
  wire::SrdGranted clear;
  clear.association = granted.association;
  clear.cipher = static_cast<uint8_t>(granted.cipher);
  clear.key = granted.key;
  wire::SrdKeyGrant grant;
  grant.nonce = request;
  grant.own = own;
  std::memcpy(grant.sealed.data(), &clear, sizeof clear);
  std::memcpy(packet + layout_.header, &grant, sizeof grant);
  const wire::KeyNonce both[] = {request, own};
  const std::unique_ptr<crypto::Aead> aead = aead_for("grant", parties, bytes_of(both));
  return seal(aead.get(), packet, layout_.header + uint32_t{offsetof(wire::SrdKeyGrant, sealed)},
              sizeof clear);
}

std::optional<Granted> KeyExchange::read_grant(const Parties& parties,
                                               const wire::KeyNonce& request,
                                               std::span<const std::byte> packet) const {
  if (packet.size() != request_length()) return std::nullopt;
  wire::SrdKeyGrant grant;
  std::memcpy(&grant, packet.data() + layout_.header, sizeof grant);
  if (grant.nonce != request) return std::nullopt;
  const wire::KeyNonce both[] = {grant.nonce, grant.own};
  const std::unique_ptr<crypto::Aead> aead = aead_for("grant", parties, bytes_of(both));
  wire::SrdGranted clear;
  if (!unseal(aead.get(), packet, layout_.header + uint32_t{offsetof(wire::SrdKeyGrant, sealed)},
              reinterpret_cast<std::byte*>(&clear)))
    return std::nullopt;
  if (clear.cipher != static_cast<uint8_t>(crypto::Cipher::aes_128_gcm) &&
      clear.cipher != static_cast<uint8_t>(crypto::Cipher::chacha20_poly1305))
    return std::nullopt;
  Granted granted;
  granted.association = clear.association;
  granted.cipher = static_cast<crypto::Cipher>(clear.cipher);
  granted.key = clear.key;
  return granted;
}

bool KeyExchange::write_unknown(const Parties& parties, const wire::SrdProtection& of,
                                std::byte* packet) const {
  write_header(parties, layout_.unknown_association, packet);
  std::memcpy(packet + layout_.header, &of, sizeof of);
  const std::unique_ptr<crypto::Aead> aead = aead_for("unknown", parties, bytes_of(of));
  return seal(aead.get(), packet, layout_.header + uint32_t{sizeof of}, 0);
}

std::optional<wire::SrdProtection> KeyExchange::read_unknown(
    const Parties& parties, std::span<const std::byte> packet) const {
  if (packet.size() != unknown_length()) return std::nullopt;
  wire::SrdProtection of;
  std::memcpy(&of, packet.data() + layout_.header, sizeof of);
  const std::unique_ptr<crypto::Aead> aead = aead_for("unknown", parties, bytes_of(of));
  std::byte none;
  if (!unseal(aead.get(), packet, layout_.header + uint32_t{sizeof of}, &none)) return std::nullopt;
  return of;
}

}  // namespace weft::secure
