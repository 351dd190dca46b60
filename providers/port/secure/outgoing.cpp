// SPDX-License-Identifier: BSD-3-Clause
// See outgoing.hpp.
#include "providers/port/secure/outgoing.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "providers/port/secure/packet_data.hpp"

namespace weft::secure {

namespace {

// Between two requests, twice as long each time.
constexpr Duration kFirstWait = Duration::from_us(500);
constexpr int kMostDoublings = 5;

}  // namespace

Receiver* Outgoing::find(const Way& way) noexcept {
  if (last_ != nullptr && last_->way == way) return last_;
  const auto at = receivers_.find(way);
  if (at == receivers_.end()) return nullptr;
  return last_ = &at->second;
}

Receiver& Outgoing::to(const Way& way) {
  if (Receiver* const known = find(way)) return *known;
  // Whichever goes asks for a new key when it is needed again.
  if (receivers_.size() >= kMostReceivers) receivers_.erase(receivers_.begin());
  last_ = nullptr;
  Receiver& made = receivers_[way];
  made.way = way;
  renew(made);
  WEFT_DCHECK(!made.ready() && receivers_.size() <= kMostReceivers);
  return *(last_ = &made);
}

void Outgoing::renew(Receiver& receiver) noexcept {
  if (receiver.asks) return;
  receiver.asks = true;
  receiver.asked = 0;
  for (uint8_t& byte : receiver.nonce) byte = static_cast<uint8_t>(random_.next32());
}

bool Outgoing::take_request(Receiver& receiver, Instant now) noexcept {
  if (!receiver.asks || (receiver.asked != 0 && now < receiver.ask_again)) return false;
  receiver.ask_again = now + kFirstWait * (int64_t{1} << std::min(receiver.asked, kMostDoublings));
  ++receiver.asked;
  return true;
}

bool Outgoing::accept(Receiver& receiver, const Granted& granted) {
  WEFT_DCHECK(receiver.asks);
  std::unique_ptr<crypto::Aead> aead = exchange_.open(granted.cipher, granted.key);
  if (aead == nullptr) return false;
  receiver.aead = std::move(aead);
  receiver.association = granted.association;
  receiver.counter = 0;
  receiver.asks = false;
  WEFT_DCHECK(receiver.ready());
  return true;
}

//= threat:A33 the counter grows before it is used again, and a key belongs to one process
bool Outgoing::seal(Receiver& receiver, const std::byte* packet, uint32_t length,
                    std::byte* out) noexcept {
  WEFT_DCHECK(receiver.ready() && length >= layout_.header);
  const uint64_t counter = receiver.counter++;
  if (counter == renew_after_) renew(receiver);
  wire::SrdProtection protection;
  protection.association = receiver.association;
  protection.counter = counter;
  std::memcpy(out, packet, layout_.header);
  out[layout_.mark_at] |= std::byte{layout_.mark};
  std::memcpy(out + layout_.header, &protection, sizeof protection);
  return receiver.aead->seal(nonce_of(counter), PacketData(layout_, out).span(),
                             {packet + layout_.header, length - layout_.header},
                             out + layout_.header + sizeof protection);
}

}  // namespace weft::secure
