// SPDX-License-Identifier: BSD-3-Clause
// See messages.hpp.
#include "lib/adapters/nccl/messages.hpp"

#include <algorithm>
#include <bit>

#include "lib/adapters/nccl/bytes.hpp"
#include "lib/base/check.hpp"
#include "lib/base/device_choice.hpp"

namespace weft::nccl {
namespace {

constexpr uint32_t kMagic = 0x31636E77;  // "wnc1"
constexpr uint8_t kOrder = std::endian::native == std::endian::little ? 1 : 2;

bool is_shm(const std::string& device) { return device.find("+shm") != std::string::npos; }

// Whether each member can reach the one at the same place: shared memory only of the same name.
bool can_meet(const std::string& ours, const std::string& peer) {
  const std::vector<std::string> a = base::split_device_list(ours);
  const std::vector<std::string> b = base::split_device_list(peer);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i] && (is_shm(a[i]) || is_shm(b[i]))) return false;
  return true;
}

}  // namespace

std::vector<std::byte> emit(Message kind, std::span<const std::byte> body) {
  WEFT_CHECK(body.size() <= kMaxBody);
  Writer writer;
  writer.number(kMagic);
  writer.number(static_cast<uint16_t>(kind));
  writer.number(static_cast<uint16_t>(body.size()));
  std::vector<std::byte> bytes = writer.bytes();
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

std::vector<std::byte> emit_hello(const Hello& hello) {
  Writer writer;
  writer.array(hello.nonce);
  writer.number(kProtocolVersion);
  writer.number(kOrder);
  writer.text(hello.device.substr(0, kMaxDevice));
  writer.text(hello.identity.substr(0, kMaxIdentity));
  writer.number(static_cast<uint8_t>(hello.service));
  writer.number(hello.traffic_class);
  writer.number(hello.ring_address);
  writer.number(hello.ring_rkey.value);
  writer.number(hello.max_part);
  writer.number(static_cast<uint8_t>(hello.lanes.size()));
  for (const LaneAddress& lane : hello.lanes) {
    writer.array(lane.gid.bytes);
    writer.number(lane.qpn.value);
    writer.number(lane.psn.value);
    writer.number(lane.path_mtu);
  }
  return emit(Message::hello, writer.bytes());
}

std::vector<std::byte> emit_reject(std::string_view text) {
  Writer writer;
  writer.text(text.substr(0, 1024));
  return emit(Message::reject, writer.bytes());
}

std::vector<std::byte> emit_goodbye(uint32_t completed) {
  Writer writer;
  writer.number(completed);
  return emit(Message::goodbye, writer.bytes());
}

Result<MessageHeader> parse_header(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto magic = reader.number<uint32_t>();
  const auto kind = reader.number<uint16_t>();
  const auto length = reader.number<uint16_t>();
  if (!reader.whole() || magic != kMagic || kind < static_cast<uint16_t>(Message::hello) ||
      kind > static_cast<uint16_t>(Message::reject) || length > kMaxBody)
    return Error{Code::invalid_argument, "the peer sent what is no message of this plug-in"};
  return MessageHeader{static_cast<Message>(kind), length};
}

Result<Nonce> parse_nonce(std::span<const std::byte> body) {
  Reader reader(body);
  const Nonce nonce = reader.array<16>();
  if (!reader.whole())
    return Error{Code::invalid_argument, "the peer's first message is malformed"};
  return nonce;
}

Result<Hello> parse_hello(std::span<const std::byte> body) {
  Reader reader(body);
  Hello hello;
  hello.nonce = reader.array<16>();
  if (const auto version = reader.number<uint16_t>(); version != kProtocolVersion)
    return Error{Code::mismatch, "the peer's plug-in has protocol version " +
                                     std::to_string(version) + ", this side has " +
                                     std::to_string(kProtocolVersion) +
                                     ": install the same version of weft on all hosts"};
  if (const auto order = reader.number<uint8_t>(); order != kOrder)
    return Error{Code::mismatch, "the peer's machine has another byte order"};
  hello.device = reader.text();
  hello.identity = reader.text();
  hello.service = static_cast<QpType>(reader.number<uint8_t>());
  hello.traffic_class = reader.number<uint8_t>();
  hello.ring_address = reader.number<uint64_t>();
  hello.ring_rkey = {reader.number<uint32_t>()};
  hello.max_part = reader.number<uint32_t>();
  const auto lanes = reader.number<uint8_t>();
  for (uint8_t i = 0; i < lanes && reader.whole(); ++i) {
    LaneAddress lane;
    lane.gid.bytes = reader.array<16>();
    lane.qpn = {reader.number<uint32_t>()};
    lane.psn = {reader.number<uint32_t>()};
    lane.path_mtu = reader.number<uint32_t>();
    hello.lanes.push_back(lane);
  }
  const bool service = hello.service == QpType::rc || hello.service == QpType::srd;
  if (!reader.whole() || lanes == 0 || lanes > kMaxLanes || !service || hello.max_part == 0)
    return Error{Code::invalid_argument, "the peer's first message is malformed"};
  for (const LaneAddress& lane : hello.lanes)
    if (lane.qpn.value > 0xFFFFFF || lane.psn.value > Psn::kMask || lane.path_mtu < 256)
      return Error{Code::invalid_argument, "the peer's first message has a wrong queue pair"};
  return hello;
}

std::string parse_reject(std::span<const std::byte> body) { return Reader(body).text(); }

uint32_t parse_goodbye(std::span<const std::byte> body) { return Reader(body).number<uint32_t>(); }

Result<void> check_peer(const Hello& ours, const Hello& peer) {
  if (ours.service == peer.service && can_meet(ours.device, peer.device)) return {};
  return Error{Code::mismatch, ours.identity + " uses " + ours.device + ", " + peer.identity +
                                   " uses " + peer.device +
                                   ": give all ranks the same WEFT_DEVICE"};
}

}  // namespace weft::nccl
