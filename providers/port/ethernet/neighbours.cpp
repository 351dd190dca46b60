// SPDX-License-Identifier: BSD-3-Clause
// See neighbours.hpp.
#include "providers/port/ethernet/neighbours.hpp"

#include <algorithm>
#include <new>

namespace weft::port::ethernet {
namespace {

constexpr Duration kAskAgain = Duration::from_ms(10);
constexpr Duration kGiveUpFor = Duration::from_s(1);
constexpr uint32_t kMostAsked = 5;

bool same_prefix(const Gid& a, const Gid& b, unsigned bits) noexcept {
  const unsigned begin = a.is_ipv4() ? 96 : 0;
  for (unsigned bit = begin; bit < begin + bits; ++bit) {
    const unsigned mask = 0x80u >> (bit % 8);
    if (((a.bytes[bit / 8] ^ b.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

Neighbours::Entry* Neighbours::look_up(const Gid& address) noexcept {
  const auto found = entries_.find(address);
  return found != entries_.end() ? &found->second : nullptr;
}

Neighbours::Entry* Neighbours::make(const Gid& address) noexcept {
  if (Entry* const entry = look_up(address)) return entry;
  if (entries_.size() == kMost && !forget_one()) return nullptr;
  try {
    return &entries_[address];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Of those that never answered, which somebody may have named to fill the table.
bool Neighbours::forget_one() noexcept {
  const auto silent = std::find_if(entries_.begin(), entries_.end(),
                                   [](const auto& entry) { return !entry.second.known; });
  if (silent == entries_.end()) return false;
  entries_.erase(silent);
  return true;
}

const Gid& Neighbours::hop_to(const Gid& address) const noexcept {
  if (self_.gateway == Gid{} || same_prefix(address, self_.address, self_.prefix)) return address;
  return self_.gateway;
}

void Neighbours::add(const Gid& address, const wire::MacAddress& mac) {
  if (Entry* const entry = make(address)) {
    entry->mac = mac;
    entry->known = true;
  }
}

const wire::MacAddress* Neighbours::find(const Gid& address) const noexcept {
  const auto found = entries_.find(hop_to(address));
  return found != entries_.end() && found->second.known ? &found->second.mac : nullptr;
}

Neighbours::Asked Neighbours::ask(const Gid& address, Instant now) noexcept {
  const Gid& hop = hop_to(address);
  Entry* const entry = make(hop);
  if (entry == nullptr) return Asked::absent;
  if (entry->asked != 0 && now < entry->ask_again)
    return entry->asked > kMostAsked ? Asked::absent : Asked::waiting;
  if (entry->asked > kMostAsked) entry->asked = 0;  // long ago: begin anew
  ++entry->asked;
  entry->ask_again = now + (entry->asked > kMostAsked ? kGiveUpFor : kAskAgain);
  say({.is_question = true,
       .sender_mac = self_.mac,
       .sender = self_.address,
       .target = hop,
       .vlan = self_.vlan},
      {});
  return Asked::waiting;
}

bool Neighbours::hear(const std::byte* frame, uint32_t length, bool answers) noexcept {
  wire::NeighbourMessage message;
  if (!wire::parse_neighbour(frame, length, message)) return false;
  if (message.target != self_.address || message.vlan != self_.vlan) return true;
  // Who asks for us will be answered, and who answers was asked; other news are not believed.
  // Questions fill half of the table at most, however many there are.
  const bool learns = message.is_question && entries_.size() < kMost / 2;
  Entry* const entry = learns ? make(message.sender) : look_up(message.sender);
  if (entry != nullptr) {
    entry->mac = message.sender_mac;
    entry->known = true;
    entry->asked = 0;
  }
  if (message.is_question && answers)
    say({.is_question = false,
         .sender_mac = self_.mac,
         .sender = self_.address,
         .target = message.sender,
         .vlan = self_.vlan},
        message.sender_mac);
  return true;
}

void Neighbours::say(const wire::NeighbourMessage& message, const wire::MacAddress& to) noexcept {
  if (waiting_.size() == kMostWaiting) return;
  try {
    waiting_.emplace_back();
  } catch (const std::bad_alloc&) {
    return;
  }
  waiting_.back().length = wire::emit_neighbour(waiting_.back().bytes.data(), message, to);
}

std::span<const std::byte> Neighbours::take() noexcept {
  if (waiting_.empty()) return {};
  taken_ = waiting_.front();
  waiting_.pop_front();
  return {taken_.bytes.data(), taken_.length};
}

}  // namespace weft::port::ethernet
