// SPDX-License-Identifier: BSD-3-Clause
// See incoming.hpp.
#include "providers/port/secure/incoming.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::secure {

namespace {

// An association is the number of the grant, and the prefix of who got it: the header of a packet
// need not name its sender.
constexpr int kPrefixBits = 8;
constexpr int kFirstBits = 40;

uint64_t number_of(uint64_t association) noexcept { return association >> kPrefixBits; }

}  // namespace

Incoming::Incoming(const KeyExchange& exchange, const Layout& layout, crypto::Cipher cipher,
                   base::SecureRandom& random)
    : exchange_(exchange),
      layout_(layout),
      cipher_(cipher),
      first_((random.next64() >> (64 - kFirstBits)) + 1),
      next_(first_) {
  std::generate(master_.begin(), master_.end(),
                [&random] { return static_cast<uint8_t>(random.next32()); });
}

std::optional<crypto::Key> Incoming::key_of(uint64_t association, const Endpoint& sender) const {
  std::byte what[sizeof association + sizeof sender.address];
  std::memcpy(what, &association, sizeof association);
  std::memcpy(what + sizeof association, &sender.address, sizeof sender.address);
  return exchange_.derive(master_, "weft data path: association", what);
}

std::optional<Granted> Incoming::grant(const Endpoint& sender) {
  const uint64_t association = next_ << kPrefixBits | sender.prefix;
  const std::optional<crypto::Key> key = key_of(association, sender);
  if (!key) return std::nullopt;
  ++next_;
  WEFT_DCHECK(number_of(association) >= first_ && number_of(association) < next_);
  return Granted{.association = association, .cipher = cipher_, .key = *key};
}

Incoming::Association* Incoming::find(uint64_t association) noexcept {
  if (association == last_ && last_found_ != nullptr) return last_found_;
  const auto at = associations_.find(association);
  if (at == associations_.end()) return nullptr;
  last_ = association;
  return last_found_ = at->second.get();
}

std::unique_ptr<Incoming::Association> Incoming::begin(uint64_t association,
                                                       const Endpoint& sender) const {
  const uint64_t number = number_of(association);
  if (number < first_ || number >= next_ || association <= forgotten_) return nullptr;
  const auto known = senders_.find(sender);
  if (known != senders_.end() && association <= known->second.current) return nullptr;
  const std::optional<crypto::Key> key = key_of(association, sender);
  if (!key) return nullptr;
  std::unique_ptr<crypto::Aead> aead = exchange_.open(cipher_, *key);
  if (aead == nullptr) return nullptr;
  return std::unique_ptr<Association>(
      new Association{.from = sender, .aead = std::move(aead), .window = {}});
}

// Of a packet that was authentic: its sender has the key.
void Incoming::accept(uint64_t association, std::unique_ptr<Association> begun) {
  const Endpoint from = begun->from;
  if (senders_.size() >= kMostSenders && senders_.find(from) == senders_.end()) forget_oldest();
  Sender& sender = senders_[from];
  associations_.emplace(association, std::move(begun));
  WEFT_DCHECK(association > sender.current && sender.current >= sender.previous);
  if (sender.previous != 0) associations_.erase(sender.previous);
  sender.previous = sender.current;
  sender.current = association;
  last_found_ = nullptr;
  WEFT_DCHECK(senders_.size() <= kMostSenders && associations_.size() <= 2 * senders_.size());
}

void Incoming::forget_oldest() {
  const auto oldest = std::min_element(
      senders_.begin(), senders_.end(),
      [](const auto& a, const auto& b) { return a.second.current < b.second.current; });
  WEFT_DCHECK(oldest != senders_.end());
  forgotten_ = std::max(forgotten_, oldest->second.current);
  associations_.erase(oldest->second.current);
  associations_.erase(oldest->second.previous);
  senders_.erase(oldest);
  last_found_ = nullptr;
}

Incoming::Verdict Incoming::open(const Gid& source, const std::byte* packet, uint32_t length,
                                 std::byte* out) {
  WEFT_DCHECK(length >= layout_.header + wire::kProtectionLength);
  wire::SrdProtection protection;
  std::memcpy(&protection, packet + layout_.header, sizeof protection);
  const uint64_t number = protection.association, counter = protection.counter;
  Association* association = find(number);
  std::unique_ptr<Association> begun;
  if (association == nullptr) {
    begun = begin(number, {source, static_cast<uint8_t>(number)});
    if (begun == nullptr) return Verdict::unknown;
    association = begun.get();
  }
  if (association->from.address != source) return Verdict::forged;
  if (!association->window.is_new(counter)) return Verdict::replayed;
  const uint32_t before = layout_.header + uint32_t{sizeof protection};
  if (!association->aead->open(nonce_of(counter), PacketData(layout_, packet).span(),
                               {packet + before, length - before}, out + layout_.header))
    return Verdict::forged;
  std::memcpy(out, packet, layout_.header);
  out[layout_.mark_at] &= ~std::byte{layout_.mark};
  association->window.note(counter);
  if (begun != nullptr) accept(number, std::move(begun));
  return Verdict::ok;
}

}  // namespace weft::secure
