// SPDX-License-Identifier: BSD-3-Clause
// See capture_mask.hpp.
#include "providers/port/middleware/capture_mask.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/chacha20.hpp"
#include "lib/base/random.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/parse.hpp"
#include "lib/wire/srd_parse.hpp"

namespace weft::middleware {

namespace {

using wire::Packet;
using wire::SrdPacket;

constexpr uint16_t kRoceUdpPort = 4791;

bool is_roce(const std::byte* bytes, uint32_t length, uint32_t icrc_length,
             Packet& packet) noexcept {
  return wire::parse(bytes, length, icrc_length, 0, packet) == wire::ParseError::none;
}

bool is_srd(const std::byte* bytes, uint32_t length, uint32_t icrc_length,
            SrdPacket& packet) noexcept {
  return wire::srd_parse(bytes, length, icrc_length, 0, packet) == wire::SrdError::none;
}

}  // namespace

uint32_t telemetry_length(const std::byte* bytes, uint32_t length,
                          uint16_t destination_port) noexcept {
  const bool has_block =
      destination_port == wire::kIntUdpPort && wire::find_int(bytes, length) != nullptr;
  return has_block ? static_cast<uint32_t>(sizeof(wire::IntBlock)) : 0;
}

KeyMask::KeyMask() {
  base::SecureRandom random;
  for (uint32_t& word : secret_) word = random.next32();
}

uint32_t KeyMask::masked(uint32_t key) const noexcept {
  uint32_t state[16] = {0x61707865, 0x3320646E, 0x79622D32, 0x6B206574};  // RFC 8439 2.3
  std::copy(std::begin(secret_), std::end(secret_), state + 4);
  state[12] = key;
  uint32_t block[16];
  base::chacha20_block(state, block);
  return block[0];
}

void KeyMask::mask_at(std::byte* at) const noexcept {
  base::Be32 key;
  std::memcpy(&key, at, sizeof key);
  key = masked(key);
  std::memcpy(at, &key, sizeof key);
}

void KeyMask::mask_roce(std::byte* bytes, uint32_t length, uint32_t icrc_length) const noexcept {
  Packet packet;
  if (!is_roce(bytes, length, icrc_length, packet)) return;
  const auto in_bytes = [bytes](const void* header) {
    return bytes + (static_cast<const std::byte*>(header) - bytes);
  };
  constexpr size_t kBehindAddress = sizeof(base::Be64);
  if (packet.info->reth) mask_at(in_bytes(&packet.reth()) + kBehindAddress);
  if (packet.info->atomic_eth) mask_at(in_bytes(packet.headers) + kBehindAddress);
  if (packet.info->deth) mask_at(in_bytes(packet.headers));
  if (packet.info->ieth) mask_at(in_bytes(packet.payload) - sizeof(base::Be32));
}

void KeyMask::mask_srd(std::byte* bytes, uint32_t length, uint32_t icrc_length) const noexcept {
  SrdPacket packet;
  if (!is_srd(bytes, length, icrc_length, packet) || !wire::is_sequenced(packet.opcode)) return;
  size_t at = sizeof(wire::SrdBase);
  if (packet.introduction != nullptr) at += sizeof(wire::SrdIntroduction);
  if (wire::names_message(packet.opcode, packet.flags)) at += sizeof(wire::SrdMessage);
  if (packet.has(wire::srd_flag::kFragment)) at += sizeof(wire::SrdFragment);
  if (wire::has_remote(packet.opcode)) {
    mask_at(bytes + at + sizeof(base::Be64));
    at += sizeof(wire::SrdRemote);
  }
  if (packet.has(wire::srd_flag::kImmediate)) at += sizeof(wire::SrdImmediate);
  if (wire::takes_receive(packet.opcode, packet.flags)) mask_at(bytes + at);
}

void KeyMask::apply(std::byte* bytes, uint32_t length, uint32_t icrc_length,
                    uint16_t destination_port) const noexcept {
  if (destination_port == wire::kSrdUdpPort) return mask_srd(bytes, length, icrc_length);
  const uint32_t before = telemetry_length(bytes, length, destination_port);
  if (destination_port == kRoceUdpPort || before != 0)
    mask_roce(bytes + before, length - before, icrc_length);
}

uint32_t header_bytes(const std::byte* bytes, uint32_t length, uint32_t icrc_length,
                      uint16_t destination_port) noexcept {
  if (destination_port == wire::kSrdUdpPort) {
    SrdPacket packet;
    const bool valid = is_srd(bytes, length, icrc_length, packet);
    const auto headers = valid ? static_cast<uint32_t>(packet.payload - bytes)
                               : static_cast<uint32_t>(sizeof(wire::SrdBase));
    return std::min(length, headers);
  }
  const uint32_t before = telemetry_length(bytes, length, destination_port);
  Packet packet;
  const bool valid = is_roce(bytes + before, length - before, icrc_length, packet);
  return std::min(length, before + (valid ? packet.info->header_length
                                          : static_cast<uint32_t>(wire::kBthLength)));
}

}  // namespace weft::middleware
