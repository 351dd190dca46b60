// SPDX-License-Identifier: BSD-3-Clause
// See connect_wire.hpp. The bytes come from unauthenticated peers: every field is validated, and
// nothing is allocated before its length has been checked.
#include "lib/verbs/connect_wire.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft::verbs {
namespace {

std::vector<std::byte> emit(MessageKind kind, const void* first, size_t first_size,
                            const void* second, size_t second_size) {
  MessageHeader header;
  header.magic = kConnectMagic;
  header.version = kConnectVersion;
  header.kind = static_cast<uint8_t>(kind);
  header.length = static_cast<uint32_t>(first_size + second_size);
  std::vector<std::byte> out(sizeof header + first_size + second_size);
  std::memcpy(out.data(), &header, sizeof header);
  if (first_size != 0) std::memcpy(out.data() + sizeof header, first, first_size);
  if (second_size != 0) std::memcpy(out.data() + sizeof header + first_size, second, second_size);
  return out;
}

Error bad(std::string text) { return {Code::invalid_argument, std::move(text)}; }

// A port within one host, whose GIDs are meaningless to other kinds of ports, or libfabric, each of
// whose providers has a wire of its own.
bool reaches_own_kind_only(std::string_view transport) {
  return transport.ends_with("+shm") || transport.ends_with("+sim") ||
         transport.starts_with("libfabric+");
}

}  // namespace

bool is_path_mtu(QpType service, uint32_t mtu) {
  return mtu >= 256 && (service == QpType::srd || std::has_single_bit(mtu));
}

std::vector<std::byte> emit_hello(const Hello& hello) {
  HelloBody body;
  body.gid = hello.gid.bytes;
  body.qpn = hello.qpn.value;
  body.psn = hello.psn.value;
  body.path_mtu = hello.path_mtu;
  body.max_rd_atomic = hello.max_rd_atomic;
  body.service = static_cast<uint8_t>(hello.service);
  body.capabilities = hello.capabilities;
  const size_t name_size = std::min(hello.transport.size(), body.transport.size());
  std::copy_n(hello.transport.data(), name_size, body.transport.data());
  return emit(MessageKind::hello, &body, sizeof body, hello.private_data.data(),
              hello.private_data.size());
}

std::vector<std::byte> emit_ready() { return emit(MessageKind::ready, nullptr, 0, nullptr, 0); }

std::vector<std::byte> emit_reject(std::string_view why) {
  why = why.substr(0, kMaxRejectText);
  return emit(MessageKind::reject, why.data(), why.size(), nullptr, 0);
}

Result<size_t> check_header(const MessageHeader& header) {
  if (header.magic != kConnectMagic) return bad("the other end is no weft connection (magic)");
  if (header.version != kConnectVersion)
    return Error{Code::not_supported,
                 "the peer uses version " + std::to_string(uint16_t{header.version}) +
                     " of the connection protocol, this side " + std::to_string(kConnectVersion)};
  const size_t length = uint32_t{header.length};
  bool fits = header.zero == 0;
  switch (static_cast<MessageKind>(header.kind)) {
    case MessageKind::hello:
      fits = fits && length >= sizeof(HelloBody) && length <= sizeof(HelloBody) + kMaxPrivateData;
      break;
    case MessageKind::ready:
      fits = fits && length == 0;
      break;
    case MessageKind::reject:
      fits = fits && length <= kMaxRejectText;
      break;
    default:
      fits = false;
  }
  if (!fits) return bad("the peer sent a malformed connection message");
  return length;
}

Result<Hello> parse_hello(std::span<const std::byte> bytes) {
  HelloBody body;
  if (bytes.size() < sizeof body || bytes.size() > sizeof body + kMaxPrivateData)
    return bad("the peer's hello has a wrong length");
  std::memcpy(&body, bytes.data(), sizeof body);
  Hello hello;
  hello.gid.bytes = body.gid;
  hello.qpn = {body.qpn};
  hello.psn = {body.psn};
  hello.path_mtu = body.path_mtu;
  hello.max_rd_atomic = body.max_rd_atomic;
  if (hello.gid == Gid{}) return bad("the peer's hello has no address");
  // QPN 0 and 1 are for management (IBTA 3.5.10), 0xFFFFFF is multicast: none is a connected QP.
  if (hello.qpn.value < 2 || hello.qpn.value >= Psn::kMask)
    return bad("the peer's hello has a queue pair number that no connection can have");
  if (hello.psn.value > Psn::kMask) return bad("the peer's hello has a PSN of more than 24 bits");
  if (body.service > static_cast<uint8_t>(QpType::xrc_target))
    return bad("the peer's hello names a transport service that there is not");
  hello.service = static_cast<QpType>(body.service);
  if (!is_path_mtu(hello.service, hello.path_mtu))
    return bad("the peer's hello has a path MTU that its service does not have");
  hello.capabilities = body.capabilities;
  const auto end = std::find(body.transport.begin(), body.transport.end(), '\0');
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '_';
  };
  if (end == body.transport.begin() || !std::all_of(body.transport.begin(), end, is_name))
    return bad("the peer's hello names no transport");
  hello.transport.assign(body.transport.begin(), end);
  const std::span<const std::byte> rest = bytes.subspan(sizeof body);
  hello.private_data.assign(rest.begin(), rest.end());
  return hello;
}

std::string parse_reject(std::span<const std::byte> body) {
  std::string text;
  for (const std::byte b : body.first(std::min(body.size(), kMaxRejectText))) {
    const char c = static_cast<char>(b);
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

bool transports_match(std::string_view ours, std::string_view theirs) {
  return ours == theirs || (!reaches_own_kind_only(ours) && !reaches_own_kind_only(theirs));
}

}  // namespace weft::verbs
