// SPDX-License-Identifier: BSD-3-Clause
// See handle.hpp.
#include "lib/adapters/nccl/handle.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "lib/adapters/nccl/bytes.hpp"

namespace weft::nccl {
namespace {

constexpr size_t kChecked = 44, kNumberAt = 48;
constexpr std::array<uint8_t, 8> kMagic = {'w', 'e', 'f', 't', 'n', 'c', 'c', 'l'};

uint32_t check_sum(std::span<const std::byte> bytes) {
  uint32_t sum = 2166136261u;
  for (const std::byte each : bytes.first(kChecked))
    sum = (sum ^ static_cast<uint8_t>(each)) * 16777619u;
  return sum;
}

Error wrong(std::string what) {
  return {Code::invalid_argument, "the handle given to connect() " + std::move(what) +
                                      ": all ranks must use the plug-in weft "
                                      "(NCCL_NET_PLUGIN=weft), of the same version"};
}

}  // namespace

void emit_handle(const Handle& handle, std::span<std::byte> out) {
  Writer writer;
  writer.array(kMagic);
  writer.number(kHandleVersion);
  writer.number(uint8_t{0});
  writer.number(handle.port);
  writer.array(handle.address.bytes);
  writer.array(handle.nonce);
  writer.number(check_sum(writer.bytes()));
  std::fill(out.begin(), out.end(), std::byte{0});
  std::copy(writer.bytes().begin(), writer.bytes().end(), out.begin());
}

Result<Handle> parse_handle(std::span<const std::byte> bytes) {
  if (bytes.size() < kHandleBytes) return wrong("is too short");
  Reader reader(bytes.first(kHandleBytes));
  if (reader.array<8>() != kMagic) return wrong("is not of weft");
  if (const auto version = reader.number<uint8_t>(); version != kHandleVersion)
    return wrong("has version " + std::to_string(version) + ", this side " +
                 std::to_string(kHandleVersion));
  const auto reserved = reader.number<uint8_t>();
  Handle handle;
  handle.port = reader.number<uint16_t>();
  handle.address.bytes = reader.array<16>();
  handle.nonce = reader.array<16>();
  if (reader.number<uint32_t>() != check_sum(bytes) || reserved != 0)
    return wrong("was changed on its way");
  if (handle.port == 0 || handle.address == Gid{} || handle.address == Gid::from_ipv4(0, 0, 0, 0) ||
      handle.address.is_multicast())
    return wrong("names no address");
  return handle;
}

uint64_t connection_number(std::span<const std::byte> bytes) {
  return bytes.size() < kHandleBytes ? 0 : Reader(bytes.subspan(kNumberAt, 8)).number<uint64_t>();
}

void set_connection_number(std::span<std::byte> bytes, uint64_t number) {
  Writer writer;
  writer.number(number);
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin() + kNumberAt);
}

}  // namespace weft::nccl
