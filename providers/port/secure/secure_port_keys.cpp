// SPDX-License-Identifier: BSD-3-Clause
// The packets of a protected port about keys: requests, grants, and what says that a key is not
// known. Nothing of them reaches the engine.
#include <sys/auxv.h>

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "providers/port/secure/secure_port.hpp"

namespace weft::secure {

using transport::Frame;
using transport::Path;

namespace {

// What a frame says of its sender and receiver; who they are is shown by the tag.
Parties parties_of(const Layout& layout, const Frame& frame) noexcept {
  return {.from = {frame.path->source, byte_at(frame.bytes, layout.source_at)},
          .to = {frame.path->destination, byte_at(frame.bytes, kDestinationAt)}};
}

constexpr size_t kLargestPacket = kLargestHeader + sizeof(wire::SrdKeyRequest);
using PacketBytes = std::array<std::byte, kLargestPacket>;

wire::KeyNonce draw(base::SecureRandom& random) noexcept {
  wire::KeyNonce nonce;
  for (uint8_t& byte : nonce) byte = static_cast<uint8_t>(random.next32());
  return nonce;
}

// Whether AES is an instruction here. Without, AES in software is slow, and leaks keys by its
// timing.
bool has_aes() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
  return false;
#endif
}

}  // namespace

crypto::Cipher preferred_cipher() noexcept {
  return has_aes() ? crypto::Cipher::aes_128_gcm : crypto::Cipher::chacha20_poly1305;
}

void SecurePort::request_key(Receiver& receiver, const Path& path) noexcept {
  if (!outgoing_.take_request(receiver, clock_())) return;
  PacketBytes packet;
  WEFT_DCHECK(exchange_.request_length() <= packet.size());
  const Parties parties{.from = {path.source, prefix_}, .to = receiver.way.to};
  bool written = false;
  base::memory_permitting(
      [&] { written = exchange_.write_request(parties, receiver.nonce, packet.data()); });
  if (!written) return;
  count(tx_requests);
  // Between what is sealed before and after: it must not part a train.
  last_frame_ = nullptr;
  Path plain = path;
  plain.traffic_class = static_cast<uint8_t>(plain.traffic_class & ~3u);
  send_now(plain, {packet.data(), exchange_.request_length()});
  last_path_ = nullptr;
}

Path SecurePort::path_back(const Frame& frame) const noexcept {
  Path path;
  path.source = frame.path->destination;
  path.destination = frame.path->source;
  path.destination_port = udp_port_;
  path.vlan = frame.path->vlan;
  const std::span<const Gid> further = inner_->further_addresses();
  const auto at = std::find(further.begin(), further.end(), path.source);
  path.source_port = at == further.end()
                         ? own_ports_.front()
                         : own_ports_[1 + static_cast<size_t>(at - further.begin())];
  return path;
}

void SecurePort::receive_keys(const Frame& frame) noexcept {
  const Parties parties = parties_of(layout_, frame);
  const uint8_t opcode = byte_at(frame.bytes, 0);
  base::memory_permitting([&] {
    if (opcode == layout_.request)
      answer_request(frame, parties);
    else if (opcode == layout_.grant)
      take_grant(frame, parties);
    else
      take_unknown(frame, parties);
  });
}

//= threat:A17 no state, and as many bytes as the request has
void SecurePort::answer_request(const Frame& frame, const Parties& parties) {
  if (++answers_ > kMostAnswers) return;
  const std::optional<wire::KeyNonce> nonce =
      exchange_.read_request(parties, {frame.bytes, frame.length});
  if (!nonce) return count(rx_bad_exchange);
  const std::optional<Granted> granted = incoming_.grant(parties.from);
  if (!granted) return;
  PacketBytes packet;
  if (!exchange_.write_grant({.from = parties.to, .to = parties.from}, *nonce, draw(random_),
                             *granted, packet.data()))
    return;
  count(keys_granted);
  send_now(path_back(frame), {packet.data(), exchange_.request_length()});
}

void SecurePort::take_grant(const Frame& frame, const Parties& parties) {
  Receiver* const receiver = outgoing_.find({parties.to.address, parties.from});
  if (receiver == nullptr || !receiver->asks) return count(rx_bad_exchange);
  const std::optional<Granted> granted =
      exchange_.read_grant(parties, receiver->nonce, {frame.bytes, frame.length});
  if (!granted || !outgoing_.accept(*receiver, *granted)) return count(rx_bad_exchange);
  count(keys_received);
  send_held(*receiver);
}

// Only who has the secret can say so. Said again by another, it costs one request.
void SecurePort::take_unknown(const Frame& frame, const Parties& parties) {
  Receiver* const receiver = outgoing_.find({parties.to.address, parties.from});
  if (receiver == nullptr || receiver->aead == nullptr) return count(rx_bad_exchange);
  const std::optional<wire::SrdProtection> of =
      exchange_.read_unknown(parties, {frame.bytes, frame.length});
  if (!of) return count(rx_bad_exchange);
  if (of->association != receiver->association || of->counter >= receiver->counter) return;
  outgoing_.renew(*receiver);
  request_key(*receiver, path_back(frame));
}

void SecurePort::report_unknown(const Frame& frame) noexcept {
  if (++answers_ > kMostAnswers) return;
  wire::SrdProtection of;
  std::memcpy(&of, frame.bytes + layout_.header, sizeof of);
  const uint64_t association = of.association;
  const Parties parties{.from = {frame.path->destination, byte_at(frame.bytes, kDestinationAt)},
                        .to = {frame.path->source, static_cast<uint8_t>(association)}};
  PacketBytes packet;
  bool written = false;
  base::memory_permitting([&] { written = exchange_.write_unknown(parties, of, packet.data()); });
  if (!written) return;
  count(tx_unknown);
  send_now(path_back(frame), {packet.data(), exchange_.unknown_length()});
}

}  // namespace weft::secure
